"""The loop around every solver: tolerance, checkpoints, history, progress, callback.

A solver gives two functions. ``step()`` does one iteration and returns a cheap estimate of the duality gap (or None).
``certify()`` returns the exact primal and dual objective of the current iterate. It may cost as much as a step, so it
is called when the estimate meets the tolerance, and at growing intervals otherwise.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .result import Checkpoint, FitState, Status

# The gap is a difference of two sums: below this fraction of them it is rounding, not distance to the optimum.
ROUNDING = 32 * float(np.finfo(np.float64).eps)
_SUMS = ROUNDING / 2  # share of the dual that its last sums may lose; within the floor of the tolerance
_LONGEST = 100.0  # most iterations between two certificates


@dataclass(frozen=True)
class Control:
    """How a solver is stopped, observed and resumed.

    Attributes
    ----------
    tol : float
        Relative tolerance: stop when gap <= tol * abs(primal), or when the gap is rounding.
    max_iter : int
        Most iterations.
    verbose : int
        0 silent, 1 a progress bar with the current gap (plain lines when the output is not a terminal).
    callback : callable or None
        Called with every ``Checkpoint``; a true return value stops the solver at its current iterate.
    title : str
        Name shown at the progress bar.
    unit : float
        Factor from the solver's objectives to the reported ones, for a solver that works on a rescaled problem.
    n_before : int
        Iterations of earlier solvers of the same fit; ``Checkpoint.n_iter`` includes them.
    started : float or None
        When the fit began, in seconds of ``time.perf_counter``; now if None.
    keep : callable or None
        Called at every certificate with a function that returns the `FitState`, valid until the next iteration.
    before : tuple of Checkpoint
        History of the fit that this one continues; iterations and seconds are counted from its end.
    warnings : list of Warning
        Warnings that the fit raises at its end.
    within : callable or None
        Called with the current primal and dual objectives, also within an iteration, by solvers with long iterations;
        a true return value stops them.
    """

    tol: float
    max_iter: int
    verbose: int = 0
    callback: Callable[[Checkpoint], object] | None = None
    title: str = "fit"
    unit: float = 1.0
    n_before: int = 0
    started: float | None = None
    keep: Callable[[Callable[[], FitState]], object] | None = None
    before: tuple[Checkpoint, ...] = ()
    warnings: list[Warning] = field(default_factory=list)
    within: Callable[[float, float], object] | None = None

    def packing(self, pack: Callable[[Any], Any]) -> "Control":
        """The same, with ``pack`` applied to the solution of every kept state: the form the learner starts from."""
        keep = self.keep
        if keep is None:
            return self

        def packed(state: Callable[[], FitState]) -> FitState:
            offered = state()
            return offered._replace(solution=pack(offered.solution))

        return replace(self, keep=lambda state: keep(lambda: packed(state)))


def tolerance(tol: float, primal: float) -> float:
    """Absolute tolerance of a duality gap: relative to the primal, with a floor for rounding."""
    return max(tol, ROUNDING) * abs(primal)


def average_rounding(
    lengths: np.ndarray, A: np.ndarray, diagonal: np.ndarray | float, squares: np.ndarray | float
) -> float:
    r"""Bound what rounding of V = X^T (S o A) adds to a dual objective with the term -1/2 tr(V R V^T).

    Every column of V sums n terms of the lengths :math:`|x_i| A_{il}`; their rounding, :math:`\delta_l`, is large
    beside V where they cancel. It changes the term by at most :math:`\sum_l |z_l| \delta_l + \frac12 (\sum_l
    \sqrt{R_{ll}} \delta_l)^2` with Z = V R, and :math:`|z_l|^2 \le R_{ll} \operatorname{tr}(V R V^\top)`. The errors of
    n roundings are taken to add up like sqrt(n), not n.

    Parameters
    ----------
    lengths : ndarray of shape (n_samples,)
        Lengths of the rows; with a kernel, the square roots of its diagonal.
    A : ndarray of shape (n_samples, n_labels), or (n_samples, 1) if it is the same for all labels
        Sizes of the dual variables.
    diagonal : ndarray of shape (n_labels,) or float
        That of R.
    squares : ndarray of shape (n_labels,) or float
        tr(V R V^T), or its part of each label where R is diagonal.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # `run_loop` refuses what is not finite
        errors = np.sqrt(diagonal) * column_rounding(lengths, A)
        return float(np.sum(np.sqrt(np.maximum(squares, 0.0)) * errors) + 0.5 * np.sum(errors) ** 2)


def column_rounding(lengths: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Length of the rounding in every column of X^T (S o A), for rows of these lengths."""
    return float(np.finfo(np.float64).eps) * (4.0 + math.sqrt(len(lengths))) * (lengths @ A)


def run_loop(
    step: Callable[[], float | None],
    certify: Callable[[], tuple[float, float]],
    control: Control,
    *,
    check_every: int = 10,
    patience: int = 0,
    state: Callable[[], Any] | None = None,
) -> tuple[Status, tuple[Checkpoint, ...], float]:
    """Iterate until the certified gap meets the tolerance.

    Parameters
    ----------
    step : callable
        One iteration; returns an estimate of the gap, or None.
    certify : callable
        (primal, dual) of the current iterate: the primal from the weights that are returned, the dual less a bound of
        the rounding in it (`average_rounding`), but for that of the last sums, which is taken off here.
    control : Control
        Tolerance, limits, progress and callback.
    check_every : int, default=10
        Certify after this many iterations without a promising estimate. The interval grows by half each time, up to
        100, so that a long run spends little on certificates and still reports progress.
    patience : int, default=0
        Iterations without a change of the certificate before the loop counts as stalled.
    state : callable or None
        Returns the start of a resumed fit, at the moment of a certificate; for ``control.keep``.

    Returns
    -------
    status : Status
        How the loop ended.
    history : tuple of Checkpoint
        All certified moments, at least one; the last belongs to the current iterate.
    tol_abs : float
        Absolute tolerance of the last checkpoint.

    Notes
    -----
    An exception (KeyboardInterrupt included) closes the progress bar and propagates; ``core/estimator.py`` restores the
    estimator. To end a fit early with what it has, let the callback return true.
    """
    start = time.perf_counter() if control.started is None else control.started
    history = list(control.before[:-1])  # the first certificate repeats the last one of a resumed fit
    n_iter = last_change = 0
    if control.before:
        start -= control.before[-1].seconds
        n_iter = last_change = control.before[-1].n_iter - control.n_before
    interval, next_check = float(check_every), n_iter + check_every
    with progress(control) as show:
        while True:
            primal, dual = (control.unit * objective for objective in certify())
            dual -= _SUMS * abs(dual)
            point = Checkpoint(control.n_before + n_iter, time.perf_counter() - start, primal, dual)
            same = bool(history) and (point.primal, point.dual) == (history[-1].primal, history[-1].dual)
            last_change = last_change if same else n_iter
            history.append(point)
            tol_abs = tolerance(control.tol, primal)
            show(point, tol_abs)
            if not math.isfinite(point.gap):
                raise FloatingPointError(
                    f"the objective is not finite after {n_iter} iterations (primal {primal}, dual {dual}): "
                    "scale the features, regularise more, or lower the weights or the kernel's gamma and degree"
                )
            if control.keep is not None and state is not None:
                control.keep(lambda: FitState(state(), tuple(history)))
            if control.callback is not None and control.callback(point):
                status = Status.STOPPED
            elif point.gap <= tol_abs:
                status = Status.CONVERGED
            elif n_iter >= control.max_iter:
                status = Status.MAX_ITER
            elif same and n_iter - last_change >= patience:
                status = Status.STALLED
            else:
                while n_iter < control.max_iter:
                    estimate = step()
                    n_iter += 1
                    if (estimate is not None and control.unit * estimate <= tol_abs) or n_iter >= next_check:
                        break
                if n_iter >= next_check:
                    interval = min(1.5 * interval, _LONGEST)
                    next_check = n_iter + int(interval)
                continue
            return status, tuple(history), tol_abs


@contextlib.contextmanager
def progress(control: Control) -> Iterator[Callable[[Checkpoint, float], None]]:
    """Yield a function of a ``Checkpoint`` and its absolute tolerance that reports them on stderr.

    A bar on a terminal, lines elsewhere, nothing if ``control.verbose`` is 0.
    """
    if not control.verbose:
        yield lambda point, tol_abs: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)

    def gap_text(point: Checkpoint, tol_abs: float) -> str:
        return f"iteration {point.n_iter}  objective {point.primal:.6g}  gap {point.gap:.2e} / {tol_abs:.2e}"

    if not console.is_terminal:
        yield lambda point, tol_abs: console.print(
            f"{control.title}: {point.seconds:.2f} s  {gap_text(point, tol_abs)}", highlight=False, soft_wrap=True
        )
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[gap]}"), TimeElapsedColumn()
    first_ratio = math.nan
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(control.title, total=1.0, gap="")

        def show(point: Checkpoint, tol_abs: float) -> None:
            # Progress is logarithmic, from the first gap down to the tolerance.
            nonlocal first_ratio
            ratio = math.log(max(point.gap, tol_abs) / tol_abs) if tol_abs > 0 else math.nan
            if math.isnan(first_ratio):
                first_ratio = ratio
            done = 1.0 - ratio / first_ratio if first_ratio > 0 else 1.0
            bar.update(task, completed=max(done, 0.0), gap=gap_text(point, tol_abs))

        yield show
