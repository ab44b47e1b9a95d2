"""Row-block dual coordinate descent for linear M3L: parts of the labels in threads over one shared X."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.loop import Control, run_loop, tolerance
from ..core.random_numbers import random_state_array
from ..core.result import Result, Status
from ..core.row_blocks import row_blocks, squared_lengths
from ..core.rows import CSR
from ..core.threads import worker_threads
from ._finish import finish
from ._loops import Active, Dual, m3l_coupled_epoch, m3l_diagonal_epoch, m3l_dual_average, m3l_sums
from ._newton import FeatureSpace, Newton
from .losses import LabelSums
from .prior import PriorPart, prior_for_loops
from .problem import M3LProblem, dual_rounding, restricted

_SINGLE_RANGE = (1e-8, 1e8)  # sizes of features, costs and R that single precision takes
_CACHE_LINE = 64
_SHARE = 0.99  # of the tolerance that a block meets, so that the sum over blocks meets it despite rounding


@dataclass(frozen=True)
class DescentPolicy:
    labels_per_block: int = 80  # most independent labels that share one product with x_i: more are faster
    one_block_up_to: int = 64  # independent labels; more are cut into an even number of blocks, for two threads
    single_from: float = 1e-4  # tolerance from which weights are in single precision: fetching them bounds the speed
    finish_after: int = 20  # passes before the finishing methods are tried
    most_optimism: float = 10.0  # limit of how many times larger than its estimate the gap is expected
    near_the_end: float = 30.0  # expected passes up to which descent goes on alone


POLICY = DescentPolicy()


def label_blocks(prior: tuple[PriorPart, ...]) -> list[PriorPart]:
    """Parts of R that are solved on their own: its components, and the labels without a partner in equal blocks."""
    blocks = []
    for part in prior:
        if part.form != "diagonal":
            blocks.append(part)
            continue
        n_labels = len(part.labels)
        n_blocks = -(-n_labels // POLICY.labels_per_block)
        n_blocks += n_blocks % 2 if n_labels > POLICY.one_block_up_to else 0
        edges = [round(b * n_labels / n_blocks) for b in range(n_blocks + 1)]
        for a, b in itertools.pairwise(edges):
            blocks.append(PriorPart(part.labels[a:b], "diagonal", np.ascontiguousarray(part.matrix[a:b])))
    return blocks


@dataclass(frozen=True)
class Certificate:
    """Weights Z = 2 V R and parts of the objectives of the labels of one block, computed anew from A.

    ``bound`` is the best dual objective so far: passes only raise D, but Newton steps begin with other dual variables.
    """

    Z: np.ndarray
    sums: LabelSums
    bound: float = -np.inf


class NewtonLabels(NamedTuple):
    """Labels of a block that Newton steps solve, by their positions."""

    positions: np.ndarray
    newton: Newton


class GapForecast:
    """Estimate of the gap between two certificates, which says when the next certificate is worth its cost."""

    def __init__(self) -> None:
        self.n_epochs, self.epochs_to_go = 0, np.inf
        self.gap, self.dual = np.inf, -np.inf
        self._met = 0.0  # parts of the gap met in the pass before
        self._optimism = 1.0  # how many times larger the gap was than its estimate at the last certificate
        self._certified = (0, np.inf)  # passes and gap then

    def add_epoch(self, met: float, raised: float) -> None:
        """Count a pass that met the gap ``met`` on the way and raised the dual by ``raised``."""
        self.n_epochs += 1
        # The gap was met half a pass ago on average; assume that it goes on shrinking as it did.
        shrinkage = min(met / self._met, 1.0) ** 0.5 if self._met > 0.0 else 1.0
        self._met = met
        self.gap = self._optimism * shrinkage * met
        self.dual += raised

    def looks_done(self, tol: float) -> bool:
        """Whether the estimate meets the tolerance, at the primal objective that goes with it."""
        return self.gap < np.inf and self.gap <= _SHARE * tolerance(tol, self.dual + self.gap)

    def correct(self, gap: float, allowed: float, looked_done: bool) -> None:
        """Learn from a certificate that does not meet the tolerance."""
        n_before, gap_before = self._certified
        # Passes to go if the gap goes on shrinking half as fast as it did since the last certificate. At most
        # twice the passes so far, so that a useless finishing attempt at most triples the work.
        self.epochs_to_go = max(100.0, 2.0 * self.n_epochs)
        if 0.0 < gap < gap_before < np.inf and allowed > 0.0:
            expected = (self.n_epochs - n_before) * np.log(gap / allowed) / np.log(gap_before / gap)
            self.epochs_to_go = min(2.0 * float(expected), self.epochs_to_go)
        self._certified = self.n_epochs, gap
        if looked_done and self.gap > 0.0:
            self._optimism = min(self._optimism * gap / self.gap, POLICY.most_optimism)


class Block:
    """The labels of one part of R; ``advance`` and ``certify`` release the GIL in their heavy parts.

    Invariant after ``certify``: W = 2 V M with V = X^T (S o A), where M is R, or F when R = F F^T has low rank. Where
    passes are slow and the conjugate is not quadratic, Newton steps take over for good; W is not used then.
    """

    def __init__(
        self,
        problem: M3LProblem,
        part: PriorPart,
        view: np.ndarray | CSR,
        sqnorm: np.ndarray,
        seed: int,
        tol: float,
        start: np.ndarray | None,
    ) -> None:
        own = restricted(problem, part)
        n_samples, n_labels = own.S.shape
        self.problem, self.view, self.part, self.tol = own, view, part, tol
        A = np.zeros(own.S.shape)
        self.dual_state = Dual(A, own.S, own.targets, own.row_cost, own.label_cost, sqnorm, own.loss)
        self._set_start(start)
        self.active = Active(
            np.arange(n_samples, dtype=np.int32),
            np.tile(np.arange(n_labels, dtype=np.int32), (n_samples, 1)),
            np.empty(n_samples + 1, dtype=np.int32),
            np.empty((2, n_labels)),
            random_state_array(seed),
        )
        self.activate_all()
        n_features = problem.X.shape[1]
        self.matrix = prior_for_loops(part)
        if tol >= POLICY.single_from and part.form in ("diagonal", "dense") and self._fits_single():
            self.W = _lined_up_zeros(n_features, n_labels)
            if part.form == "dense":
                self.matrix = np.asarray(self.matrix, dtype=np.float32)
        else:
            self.W = np.zeros((n_features, part.matrix.shape[1] if part.form == "factor" else n_labels))
        unknown = np.full(n_labels, np.inf)
        self.now = self.best = Certificate(self.W, LabelSums(unknown, unknown, -unknown))
        self.forecast = GapForecast()
        self.done = self.tried_finish = False
        self.newton: NewtonLabels | None = None

    def _set_start(self, start: np.ndarray | None) -> None:
        """Begin from ``start``, and from their optimum for variables that no score depends on."""
        dual, problem = self.dual_state, self.problem
        for rows in row_blocks(len(dual.A)):
            if start is not None:
                np.clip(start[rows][:, self.part.labels], 0.0, problem.upper(rows), out=dual.A[rows])
            fixed = (dual.sqnorm[rows] <= 0.0)[:, None] | (self.part.diagonal <= 0.0)
            if fixed.any():
                dual.A[rows][fixed] = (problem.cost(rows) * problem.loss.slope(problem.target(rows)))[fixed]

    def _fits_single(self) -> bool:
        """Whether weights and scores stay far from the ends of single precision."""
        d = self.dual_state
        sizes = [d.sqnorm, self.part.diagonal, d.row_cost, d.label_cost]  # R has no entry above its diagonal
        positive = [size[size > 0.0] for size in sizes]
        return all(p.size == 0 or (_SINGLE_RANGE[0] < p.min() and p.max() < _SINGLE_RANGE[1]) for p in positive)

    @property
    def allowed(self) -> float:
        """Gap to be reached."""
        return _SHARE * tolerance(self.tol, self.now.sums.primal)

    def activate_all(self) -> None:
        """Every dual variable may move again."""
        n_samples, n_labels = self.dual_state.A.shape
        self.active.count[:-1] = n_labels
        self.active.count[-1] = n_samples
        self.active.bounds[0], self.active.bounds[1] = -np.inf, np.inf

    def advance(self) -> None:
        """Make one pass over the active set, and certify when the gap looks small enough; or one Newton step."""
        if self.newton is not None:
            self.newton.newton.step()
            self._take_newton(*self.newton)
            return
        dual, active, parts = self.dual_state, self.active, np.empty((2, len(self.part.labels)))
        if self.part.form == "diagonal":
            m3l_diagonal_epoch(self.view, self.matrix, dual, active, self.W, parts)
        else:
            factored = self.part.form == "factor"
            m3l_coupled_epoch(self.view, self.matrix, factored, self.part.diagonal, dual, active, self.W, parts)
        self.forecast.add_epoch(*parts.sum(axis=1).tolist())
        if self.forecast.looks_done(self.tol):
            self.certify()

    def certify(self) -> None:
        """Compute exact objectives, and W anew from A so that rounding does not add up; finish slow labels."""
        if self.newton is not None:  # certified by its last step
            return
        self._evaluate()
        forecast = self.forecast
        late = forecast.n_epochs >= POLICY.finish_after and forecast.epochs_to_go > POLICY.near_the_end
        if late and not self.done and self.problem.loss.is_smooth:
            self._begin_newton()
        elif late and not self.done:
            if self.W.dtype == np.float32:  # go on in double precision
                self.W, self.matrix = np.zeros(self.now.Z.shape), prior_for_loops(self.part)
            finish(self)
            self.tried_finish = True
            self.activate_all()
            self._evaluate()

    def _begin_newton(self) -> None:
        """Continue by Newton steps on the labels that are not solved, or on all if R couples them."""
        A, part = self.dual_state.A, self.part
        positions = np.arange(A.shape[1])
        if part.form == "diagonal":
            positions = np.flatnonzero(self.now.sums.label_gaps > 0.5 * self.allowed / A.shape[1])
            part = PriorPart(positions, "diagonal", part.diagonal[positions])
        own = restricted(self.problem, replace(part, labels=positions))
        space = FeatureSpace(own.X, part)
        newton = Newton(own, part, space, space.adjoint(2.0 * own.S * A[:, positions]))
        self.newton = NewtonLabels(positions, newton)
        self._take_newton(positions, newton)

    def _take_newton(self, positions: np.ndarray, newton: Newton) -> None:
        """Go to the point of the Newton steps."""
        self.dual_state.A[:, positions] = newton.A
        Z, sums = self.now.Z.copy(), self.now.sums.copied()
        Z[:, positions] = newton.metric
        for whole, part in zip(sums, newton.sums, strict=True):
            whole[positions] = part
        self._take(Certificate(Z, sums))

    def _take(self, certificate: Certificate) -> None:
        """Note a certificate, and whether it meets the tolerance."""
        dual, sums = self.dual_state, certificate.sums
        certain = sums.dual - dual_rounding(self.part, dual.sqnorm, dual.A, sums.quadratic)
        self.now = replace(certificate, bound=max(self.now.bound, certain))
        if not certificate.sums.primal >= self.best.sums.primal:
            self.best = certificate
        self.forecast.dual = certificate.sums.dual
        self.done = certificate.sums.primal - self.now.bound <= self.allowed

    def _evaluate(self) -> None:
        """Compute the objectives of A, whether they meet the tolerance, and correct the forecast if not."""
        dual, n_labels = self.dual_state, len(self.part.labels)
        if dual.A.any():
            Z, quadratic = self._refresh()
            losses_and_gains = np.empty((2, n_labels))
            m3l_sums(self.view, dual, Z, losses_and_gains)
            certificate = Certificate(Z, LabelSums(quadratic, *losses_and_gains))
        else:  # no product with X needed
            zero, Z = np.zeros(n_labels), np.zeros((self.W.shape[0], n_labels))
            losses = sum((self.problem.losses(0.0, rows) for rows in row_blocks(len(dual.A))), zero)
            certificate = Certificate(Z, LabelSums(zero, losses, zero))
        self._take(certificate)
        if not self.done:
            looked_done = self.forecast.looks_done(self.tol)
            self.forecast.correct(certificate.sums.gap, self.allowed, looked_done)
            if looked_done:  # something was shrunk too early, or margins moved on within the pass
                self.activate_all()

    def _refresh(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute W anew from A; returns Z in double precision, and the diagonal of V^T Z."""
        V = np.zeros((self.W.shape[0], len(self.part.labels)))
        m3l_dual_average(self.view, self.dual_state, V)
        if self.part.form == "diagonal":  # no second array of that size
            quadratic = 2.0 * self.part.diagonal * np.einsum("ij,ij->j", V, V)
            V *= 2.0 * self.part.diagonal
            Z = V
        else:
            Z = np.ascontiguousarray(self.part.apply(V))
            Z *= 2.0  # Eq. (23)
            quadratic = np.einsum("ij,ij->j", V, Z)
        if self.part.form == "factor":
            self.W[:] = 2.0 * (V @ self.matrix)
        else:
            self.W[:, : Z.shape[1]] = Z
        return Z, quadratic


def _lined_up_zeros(n_rows: int, n_columns: int) -> np.ndarray:
    """Zeros in single precision, (n_rows, at least n_columns): rows begin with a cache line and fill their last."""
    width = -(-4 * n_columns // _CACHE_LINE) * _CACHE_LINE
    raw = np.zeros(n_rows * width + _CACHE_LINE, dtype=np.uint8)
    first = -raw.ctypes.data % _CACHE_LINE
    return raw[first : first + n_rows * width].view(np.float32).reshape(n_rows, width // 4)


def _columns(labels: np.ndarray) -> np.ndarray | slice:
    """Labels as a slice if they are neighbours: copies of whole runs are several times faster."""
    first, last = int(labels[0]), int(labels[-1])
    return slice(first, last + 1) if np.array_equal(labels, np.arange(first, last + 1)) else labels


def solve_m3l(
    problem: M3LProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: np.ndarray | None = None,
) -> Result:
    """Solve linear M3L to a certified gap; the result is the same for any number of threads.

    ``view`` is ``problem.X`` as the loops take it; there is one seed per block of ``label_blocks(problem.prior)``.
    ``start`` (n_samples, n_labels) is clipped to the bounds.

    In the result ``coef`` is Z^T, a view, and ``dual_coef`` is A. A run that ends early returns the best Z certified,
    which may not be that of A, and its certificate in ``history``.
    """
    X = problem.X
    sqnorm = squared_lengths(X)
    parts = label_blocks(problem.prior)
    blocks = [
        Block(problem, part, view, sqnorm, seed, control.tol, start) for part, seed in zip(parts, seeds, strict=True)
    ]
    with worker_threads(min(n_threads, len(blocks))) as pool:

        def step() -> float:
            list(pool.map(Block.advance, [b for b in blocks if not b.done]))
            if any(b.newton is not None for b in blocks):  # each of its steps ends with a certificate
                return 0.0
            return sum(b.now.sums.gap for b in blocks) if all(b.done for b in blocks) else np.inf

        def certify() -> tuple[float, float]:
            list(pool.map(Block.certify, [b for b in blocks if not b.done]))
            return sum(b.now.sums.primal for b in blocks), sum(b.now.bound for b in blocks)

        def joined(n_rows: int, of_block: Callable[[Block], np.ndarray]) -> np.ndarray:
            whole = np.empty((n_rows, problem.S.shape[1]))

            def copy(block: Block) -> None:
                whole[:, _columns(block.part.labels)] = of_block(block)

            list(pool.map(copy, blocks))
            return whole

        def dual_variables() -> np.ndarray:
            return joined(X.shape[0], lambda block: block.dual_state.A)

        status, history, tol_abs = run_loop(
            step, certify, control, check_every=POLICY.finish_after, state=dual_variables
        )
        # The primal of passes may rise: a run that ends early returns the best weights met.
        best = control.unit * sum(b.best.sums.primal for b in blocks)
        ended_early = status is not Status.CONVERGED and best < history[-1].primal
        if ended_early:
            history, tol_abs = (*history[:-1], history[-1]._replace(primal=best)), tolerance(control.tol, best)
            if history[-1].gap <= tol_abs and status is not Status.STOPPED:
                status = Status.CONVERGED
        Z = joined(X.shape[1], lambda block: (block.best if ended_early else block.now).Z)
        A = dual_variables()
    return Result(Z.T, A, history, tol_abs, status)
