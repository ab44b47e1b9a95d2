"""Where the alternation of PrML begins: dictionaries and feasible points made of PrBR's predictors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..problems.prml import PrMLProblem, SlackDual
from ._prml_step import Ways
from ._result import Checkpoint

# Noise of the first D, relative to its largest entry.
_NOISE = 1e-4
# Singular values of Z below this fraction of the largest are rounding.
_RANK = 1e-12
# Constraints may be broken by this much, relative to the largest margin: it is rounding.
_BROKEN = 1e-11


class Point(NamedTuple):
    """D (rank, n_features), W (rank, n_labels) and T (n_labels, n_labels) of (5)."""

    D: np.ndarray
    W: np.ndarray
    T: np.ndarray


class PrMLFinished(NamedTuple):
    """The best of the starts that were finished before a callback stopped another.

    Attributes
    ----------
    dictionary, codes, privileged : ndarray
        As in `PrMLStart`.
    dual : SlackDual
        Of its last step.
    history : tuple of Checkpoint
        Its alternations.
    status : str
        Name of the ``Status`` it ended with.
    """

    dictionary: np.ndarray
    codes: np.ndarray
    privileged: np.ndarray
    dual: SlackDual
    history: tuple[Checkpoint, ...]
    status: str


class PrMLStopped(NamedTuple):
    """Where a callback stopped an alternation; with D, W and T it goes on from there as if nothing had been.

    Attributes
    ----------
    number : int
        Which of several starts it is.
    step_tol : float
        Tolerance of the next steps.
    w_penalty, d_penalty : ndarray of shape (n_labels,) or None
        Penalties that the steps ended with.
    n_idle : int
        Alternations without any change.
    done : bool
        Whether it had converged.
    history : tuple of Checkpoint
        Its alternations so far.
    best : PrMLFinished or None
        Of earlier starts.
    """

    number: int
    step_tol: float
    w_penalty: np.ndarray | None
    d_penalty: np.ndarray | None
    n_idle: int
    done: bool
    history: tuple[Checkpoint, ...]
    best: PrMLFinished | None


class PrMLStart(NamedTuple):
    """What an earlier solution leaves for the next one.

    Attributes
    ----------
    dictionary : ndarray of shape (rank, n_features)
        D.
    codes : ndarray of shape (rank, n_labels) or None
        W.
    privileged : ndarray of shape (n_labels, n_labels) or None
        T^T: row i has the privileged weights of label i.
    dual : SlackDual or None
        Of the last step.
    stopped : PrMLStopped or None
        How far the alternation got, if a callback stopped it.
    """

    dictionary: np.ndarray
    codes: np.ndarray | None = None
    privileged: np.ndarray | None = None
    dual: SlackDual | None = None
    stopped: PrMLStopped | None = None

    def point(self, problem: PrMLProblem) -> Point | None:
        """All of it, if it satisfies the constraints of this problem.

        Parameters
        ----------
        problem : PrMLProblem
            All labels.

        Returns
        -------
        Point or None
            None if something is missing or a constraint is broken.
        """
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
    what is zero would stay zero.

    Parameters
    ----------
    coef : ndarray of shape (n_labels, n_features)
        Predictors, Z^T.
    rank : int
        Rows of D.
    gamma1 : float
        Regularisation of W.
    rng : Generator
        For noise and mixtures.
    mixed : bool
        Whether to mix.

    Returns
    -------
    ndarray of shape (rank, n_features)
        D.
    """
    _, values, right = np.linalg.svd(coef, full_matrices=False)
    roots = gamma1**0.25 * np.sqrt(values)
    D = np.zeros((rank, coef.shape[1]))
    if mixed:
        mixture = rng.normal(size=(rank, len(values))) / np.sqrt(rank)
        D += (mixture * roots) @ right
    else:
        n_kept = min(rank, len(values))
        D[:n_kept] = roots[:n_kept, None] * right[:n_kept]
    return D + _noise(D, rng)


def kept_predictors(
    problem: PrMLProblem,
    coef: np.ndarray,
    privileged: np.ndarray,
    ways: Ways,
    rank: int,
    rng: np.random.Generator,
    *,
    drawn: bool,
) -> Point | None:
    """The predictors of as many labels as the rank allows, zero predictors for all others.

    A slack is that of the worst row, so that predictors cut to a low rank may be worth nothing for any label, and the
    alternation ends at zero. Those of a few labels, whole, are worth as much as they were.

    Parameters
    ----------
    problem : PrMLProblem
        All labels.
    coef, privileged : ndarrays of shape (n_labels, n_features) and (n_labels, n_labels)
        Feasible predictors of any rank with their privileged weights, row i of label i.
    ways : Ways
        How the slacks of labels without a predictor are raised.
    rank : int
        Rows of D and W.
    rng : Generator
        For the choice, and for noise in rows of D that no label needs.
    drawn : bool
        Whether labels are drawn, more likely the more they gain, or the best ones taken.

    Returns
    -------
    Point or None
        Feasible; None if no label gains, or if more labels than the rank cannot do without a predictor.
    """
    lengths = np.linalg.norm(coef, axis=1)
    gain = _costs(problem, ways.lift) - _costs(problem, privileged.T) - np.sqrt(problem.gamma1) * lengths
    gain[list(ways.bases)] = np.inf  # without slack for some rows: they need their predictors
    candidates = np.flatnonzero(gain > 0.0)
    if not candidates.size or len(ways.bases) > rank:
        return None
    worth = np.log(gain[candidates])
    if drawn:  # the largest of these are a weighted choice without replacement
        worth = worth + rng.gumbel(size=worth.shape)
    kept = candidates[np.argsort(-worth, kind="stable")[:rank]]
    Z = np.zeros(coef.T.shape)
    Z[:, kept] = coef[kept].T
    T = ways.lift.copy()
    T[:, kept] = privileged[kept].T
    D, W = balanced(Z, rank, problem.gamma1)
    empty = ~W.any(axis=1)
    D[empty] = _noise(D, rng)[empty]
    return Point(D, W, T)


def balanced(Z: np.ndarray, rank: int, gamma1: float) -> tuple[np.ndarray, np.ndarray]:
    """The D and W that cost least of all with D^T W = Z: singular vectors, times the roots of the singular values.

    Parameters
    ----------
    Z : ndarray of shape (n_features, n_labels)
        Of no higher rank.
    rank : int
        Rows of D and W; those that Z does not need are zero.
    gamma1 : float
        Regularisation of W.

    Returns
    -------
    D : ndarray of shape (rank, n_features)
        Dictionary.
    W : ndarray of shape (rank, n_labels)
        Codes.
    """
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
