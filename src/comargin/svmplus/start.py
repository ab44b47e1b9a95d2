"""Where the alternation of PrML begins: dictionaries and feasible points made of PrBR's predictors."""

from typing import NamedTuple

import numpy as np

from ..core.result import Checkpoint
from .problem import PrMLProblem, SlackDual

# Noise of the first D, relative to its largest entry. Singular values of Z below this fraction of the largest, and
# broken constraints below this fraction of the largest margin, are rounding.
_NOISE, _RANK, _BROKEN = 1e-4, 1e-12, 1e-11


class Point(NamedTuple):
    """D (rank, n_features), W (rank, n_labels) and T (n_labels, n_labels) of (5)."""

    D: np.ndarray
    W: np.ndarray
    T: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """D, W and T^T, as results and states hold them."""
        return self.D, self.W, np.ascontiguousarray(self.T.T)


class PrMLFinished(NamedTuple):
    """The best of the starts that were finished before another was under way."""

    dictionary: np.ndarray  # these three as in `PrMLState`
    codes: np.ndarray
    privileged: np.ndarray
    dual: SlackDual  # of its last step
    history: tuple[Checkpoint, ...]  # its alternations
    status: str  # name of the ``Status`` it ended with


class PrMLStopped(NamedTuple):
    """How far an alternation has come; with D, W and T it continues exactly as without the interruption."""

    number: int  # which of several starts it is
    step_tol: float  # tolerance of the next steps
    n_idle: int  # alternations without any change
    done: bool  # whether it had converged
    history: tuple[Checkpoint, ...]  # its alternations so far
    best: PrMLFinished | None  # of earlier starts


class PrMLState(NamedTuple):
    """What an earlier solution, or a state of a running fit, leaves for the next one."""

    dictionary: np.ndarray  # D (rank, n_features)
    codes: np.ndarray | None = None  # W (rank, n_labels)
    privileged: np.ndarray | None = None  # T^T (n_labels, n_labels): row i has the privileged weights of label i
    dual: SlackDual | None = None  # of the last step
    stopped: PrMLStopped | None = None  # how far the alternation came, if it had not ended

    def point(self, problem: PrMLProblem) -> Point | None:
        """All of it, if it satisfies the constraints of this problem; else None."""
        if self.codes is None or self.privileged is None:
            return None
        D, W, T = self.dictionary, self.codes, self.privileged.T
        if np.any(T[problem.privileged.used == 0.0]):
            return None
        step = problem.w_step(D)
        largest = 1.0 + float(np.max(np.abs(step.X @ W)))
        broken = float(np.max(step.violation(problem.gamma1 * W, T)))
        return Point(D, W, T) if broken <= _BROKEN * largest else None


def first_dictionary(
    coef: np.ndarray, rank: int, gamma1: float, rng: np.random.Generator, *, mixed: bool
) -> np.ndarray:
    """D of given predictors: their singular vectors, or random mixtures of them.

    Both scaled as in a balanced pair, where D^T D is (gamma1 Z Z^T)^1/2. A little noise leaves no direction of D empty:
    a direction that is zero would stay zero.
    """
    _, values, right = np.linalg.svd(coef, full_matrices=False)
    roots = gamma1**0.25 * np.sqrt(values)
    D = np.zeros((rank, coef.shape[1]))
    if mixed:
        D += (rng.normal(size=(rank, len(values))) / np.sqrt(rank) * roots) @ right
    else:
        n_kept = min(rank, len(values))
        D[:n_kept] = roots[:n_kept, None] * right[:n_kept]
    return D + _noise(D, rng)


def kept_predictors(
    problem: PrMLProblem, coef: np.ndarray, privileged: np.ndarray, rank: int, rng: np.random.Generator, *, drawn: bool
) -> Point | None:
    """The predictors of as many labels as the rank allows, zero predictors for all others.

    A slack is that of the worst row: predictors cut to a low rank may be worth nothing for any label, those of a few
    labels, whole, are worth what they were. ``coef`` and ``privileged`` are feasible predictors of any rank, row i of
    label i. Labels are ``drawn``, more likely the more they gain, or the best are taken. Returns a feasible point; None
    if no label gains, or if more labels than the rank cannot do without a predictor.
    """
    lift, bases = problem.privileged.lift, problem.privileged.bases
    assert lift is not None
    lengths = np.linalg.norm(coef, axis=1)
    gain = _costs(problem, lift) - _costs(problem, privileged.T) - np.sqrt(problem.gamma1) * lengths
    gain[list(bases)] = np.inf  # without slack for some rows: they need their predictors
    candidates = np.flatnonzero(gain > 0.0)
    if not candidates.size or len(bases) > rank:
        return None
    worth = np.log(gain[candidates])
    if drawn:  # the largest of these are a weighted choice without replacement
        worth = worth + rng.gumbel(size=worth.shape)
    kept = candidates[np.argsort(-worth, kind="stable")[:rank]]
    Z = np.zeros(coef.T.shape)
    Z[:, kept] = coef[kept].T
    T = lift.copy()
    T[:, kept] = privileged[kept].T
    D, W = balanced(Z, rank, problem.gamma1)
    empty = ~W.any(axis=1)
    D[empty] = _noise(D, rng)[empty]
    return Point(D, W, T)


def balanced(Z: np.ndarray, rank: int, gamma1: float) -> tuple[np.ndarray, np.ndarray]:
    """The D and W that cost least of all with D^T W = Z: singular vectors, times the roots of the singular values."""
    left, values, right = np.linalg.svd(Z, full_matrices=False)
    n_used = min(rank, int(np.count_nonzero(values > _RANK * values[0])))
    root, scale = np.sqrt(values[:n_used])[:, None], gamma1**0.25
    D, W = np.zeros((rank, Z.shape[0])), np.zeros((rank, Z.shape[1]))
    D[:n_used] = scale * root * left[:, :n_used].T
    W[:n_used] = root / scale * right[:n_used]
    return D, W


def _costs(problem: PrMLProblem, T: np.ndarray) -> np.ndarray:
    """What the slacks and privileged weights of each label cost."""
    xi = problem.privileged.slack(T, np.arange(T.shape[1]))
    return np.asarray(np.sum(problem.set_cost * xi, axis=0) + 0.5 * problem.gamma2 * np.sum(T * T, axis=0))


def _noise(D: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Small against D."""
    size = float(np.abs(D).max())
    return _NOISE * (size if size > 0.0 else 1.0) * rng.normal(size=D.shape)
