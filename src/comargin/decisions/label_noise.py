r"""Which labels of which rows are probably wrong, from out-of-fold probabilities and the given labels.

Given labels are z, p_l(x) their calibrated probabilities. A cell (row, label) can be wrong in two ways.

**Alone.** What the scores do not say, the other labels of the row may. A logistic model of each label,

.. math:: \operatorname{logit} q_l = a_l \operatorname{logit} p_l + b_l + \sum_{k \in N_l} w_{lk} (z_k - p_k)

with N_l the labels whose residuals z - p correlate most with its own, is the pseudo-likelihood of a pairwise model of
all labels. A Gaussian prior pulls it to q = p. Its margins are those of a fit without the row, to first order: with
h = x^T H^{-1} x of the row in the Hessian H, the row's own pull on its margin is h (z - q) / (1 - h q (1 - q)). The
odds that the given label is the other one are q / (1 - q) where it is off, (1 - q) / q where it is on.

**Exchanged.** A row that has label a is given b instead. The other labels do not show that, as b explains a away. But
the pair then disagrees with the scores more often than it would if labels were independent given x,

.. math:: O_{ab} = \sum_i (1 - z_{ia}) p_{ia} z_{ib} (1 - p_{ib}), \qquad E_{ab} = \sum_i v_{ia} v_{ib}, \quad
    v = p (1 - p)

and where the excess (O - E) / sqrt(E) is large, the odds of both cells of such a row grow by a multiple of
(O / E - 1) times the odds of the exchange, p_a / (1 - p_a) (1 - p_b) / p_b.

**Rates.** Per label, by confident joints (Northcutt, Jiang, Chuang. Confident learning. JAIR 2021): a cell counts as
on if its p is at least the mean p of the cells given on, and as off in the same way.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from ..core.checks import whole_number
from ..core.indicator import check_indicator
from ..core.row_blocks import row_blocks

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class NoisePolicy:
    """Tuned numbers, chosen on emotions, flags, enron and cal500 with planted errors, on linear scores and forests."""

    neighbours: int = 10  # size of N_l: 30 finds 0.01 fewer of the single errors of enron and 0.03 fewer of cal500
    ridge: float = 3.0  # of w: 1 finds 0.02 more on flags and 0.01 fewer on cal500, 10 finds 0.07 fewer on flags
    centre: float = 1.0  # of a around 1 and b around 0
    # From which a pair counts: at 2.5 the labels of flags, which exclude each other, pass for errors; at 3.5 the
    # planted pairs of emotions are overlooked.
    excess: float = 3.0
    # The multiple: 1 finds 0.1 fewer exchanged labels of emotions, 10 finds 0.02 fewer of enron's single ones.
    exchange: float = 3.0
    cells_at_once: int = 4_000_000  # bounds temporaries


POLICY = NoisePolicy()
_NEAREST = 1e-6  # to 0 and to 1; float32 tells it from them
_STEPS, _CLOSE = 50, 1e-6  # of Newton's method; largest change of a margin at which it ends


class LabelIssues(NamedTuple):
    """Suspicious cells, the most suspicious first, confused pairs and noise per label.

    Attributes
    ----------
    rows, labels : int ndarray of shape (n_found,)
        The cells.
    given : bool ndarray of shape (n_found,)
        Whether the label is on: then it is probably wrong, else probably missing.
    probabilities : ndarray of shape (n_found,)
        Out-of-fold probabilities of the labels.
    scores : ndarray of shape (n_found,)
        From 0 to 1; 1/2 where the rest of the data speak for and against the given label alike.
    partners : int ndarray of shape (n_found,)
        The label of the row that the cell was probably exchanged with, or -1.
    pairs : int ndarray of shape (n_pairs, 2)
        Labels a and b where b is given in place of a too often, the clearest first.
    observed, expected : ndarray of shape (n_pairs,)
        Disagreement with the scores in rows with b and without a, and what it would be without a connection.
    positives : int ndarray of shape (n_labels,)
        Rows that have each label.
    wrong_rate, missing_rate : ndarray of shape (n_labels,)
        Estimated share of the rows with the label that should not have it, and of those without that should.
    """

    rows: NDArray[np.intp]
    labels: NDArray[np.intp]
    given: NDArray[np.bool_]
    probabilities: FloatArray
    scores: FloatArray
    partners: NDArray[np.intp]
    pairs: NDArray[np.intp]
    observed: FloatArray
    expected: FloatArray
    positives: NDArray[np.intp]
    wrong_rate: FloatArray
    missing_rate: FloatArray


def find_label_issues(probabilities: Any, Y: Any, most: int = 1000) -> LabelIssues:
    """Rank the cells of a label matrix by how probably they are wrong.

    Parameters
    ----------
    probabilities : array-like of shape (n_samples, n_labels)
        Calibrated probabilities, each row's by a model that has not learned from it. float32 is read as it is.
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        The given labels, 0 or 1.
    most : int, default=1000
        How many cells to return.

    Returns
    -------
    LabelIssues
        Cells, pairs of labels and rates. Beside the arguments and n_labels x n_labels numbers, memory is that of
        some columns and of blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import find_label_issues
    >>> Y = np.repeat([[1, 0], [0, 1]], 50, axis=0)
    >>> P = np.where(Y == 1, 0.9, 0.1)
    >>> Y[7, 0] = 0
    >>> found = find_label_issues(P, Y, most=1)
    >>> found.rows, found.labels, found.given
    (array([7]), array([0]), array([False]))
    """
    P, Z = _checked(probabilities, Y)
    most = whole_number("most", most, 1)
    n_labels = P.shape[1]
    correlation, observed, expected = _moments(P, sparse.csr_array(Z))
    excess = (observed - expected) / np.sqrt(np.maximum(expected, 1.0))
    np.fill_diagonal(excess, 0.0)
    missing, wrong = np.nonzero(excess > POLICY.excess)
    clearest = np.argsort(-excess[missing, wrong], kind="stable")
    pairs = np.column_stack([missing, wrong])[clearest]
    lifts = POLICY.exchange * (observed / np.maximum(expected, 1.0) - 1.0)
    top, rates = _Top(most), np.zeros((2, n_labels))
    for label in range(n_labels):
        p, z = _column(P, Z, label)
        near = np.argsort(-correlation[label], kind="stable")[: min(POLICY.neighbours, n_labels - 1)]
        residuals = [z_k - p_k for p_k, z_k in (_column(P, Z, k) for k in near)]
        margin = _margins_without_row(np.column_stack([*residuals, np.ones(len(p)), logit(p)]), z)
        odds = np.exp(np.where(z == 1.0, -margin, margin))
        partner, largest = np.full(len(p), -1), odds.copy()
        for a, b in pairs[(pairs == label).any(axis=1)]:
            (p_a, z_a), (p_b, z_b) = _column(P, Z, a), _column(P, Z, b)
            more = lifts[a, b] * (1.0 - z_a) * p_a / (1.0 - p_a) * z_b * (1.0 - p_b) / p_b
            partner[more > largest] = b if label == a else a
            largest = np.maximum(largest, more)
            odds += more
        top.add(label, odds, partner)
        rates[:, label] = _rates(p, z)
    rows, labels, odds, partners = top.best()
    return LabelIssues(
        rows, labels, np.asarray(Z.tocsr()[rows, labels]).ravel().astype(bool), P[rows, labels].astype(np.float64),
        odds / (1.0 + odds), partners, pairs, observed[tuple(pairs.T)], expected[tuple(pairs.T)],
        np.diff(Z.indptr).astype(np.intp), *rates,
    )  # fmt: skip


def _checked(probabilities: Any, Y: Any) -> tuple[NDArray[Any], sparse.csc_array]:
    P = np.asarray(probabilities)
    if P.ndim != 2 or P.dtype.kind not in "biuf" or 0 in P.shape:
        raise ValueError(
            "probabilities must be a dense array of numbers of shape (n_samples, n_labels) with at least one row and "
            f"one label, got shape {P.shape} and dtype {P.dtype}."
        )
    if not (P.min() >= 0.0 and P.max() <= 1.0):  # NaN too
        raise ValueError(f"probabilities must be from 0 to 1; got values from {P.min():g} to {P.max():g}.")
    Z = sparse.csc_array(check_indicator(Y, "Y"), dtype=np.float64)
    if Z.shape != P.shape:
        raise ValueError(f"Y must have the shape of probabilities, {P.shape}, got {Z.shape}.")
    return P, Z


def _column(P: NDArray[Any], Z: sparse.csc_array, label: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities, off 0 and 1, and given labels of a column."""
    z = np.zeros(len(P))
    z[Z.indices[Z.indptr[label] : Z.indptr[label + 1]]] = 1.0
    return np.clip(P[:, label].astype(np.float64), _NEAREST, 1.0 - _NEAREST), z


def _moments(P: NDArray[Any], Z: sparse.csr_array) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Absolute correlations of residuals (-1 on the diagonal), O and E."""
    n_labels = P.shape[1]
    products, observed, expected = (np.zeros((n_labels, n_labels)) for _ in range(3))
    for rows in row_blocks(len(P), max(POLICY.cells_at_once // n_labels, 1)):
        p, z = np.clip(P[rows].astype(np.float64), _NEAREST, 1.0 - _NEAREST), Z[rows].toarray()
        products += (z - p).T @ (z - p)
        observed += ((1.0 - z) * p).T @ (z * (1.0 - p))
        v = p * (1.0 - p)
        expected += v.T @ v
    scale = np.sqrt(np.diag(products))
    correlation = np.abs(products) / np.outer(scale, scale)
    np.fill_diagonal(correlation, -1.0)
    return correlation, observed, expected


def _margins_without_row(features: FloatArray, z: FloatArray) -> FloatArray:
    """Margins of the logistic model of a label, each as if its row had not been learned from.

    The last two features are those of b and a.
    """
    n_weights = features.shape[1]
    prior = np.array([POLICY.ridge] * (n_weights - 2) + [POLICY.centre] * 2)
    centre = np.zeros(n_weights)
    centre[-1] = 1.0

    def objective(w: FloatArray) -> float:
        margin = features @ w
        return float(np.sum(np.logaddexp(0.0, margin) - z * margin) + 0.5 * prior @ (w - centre) ** 2)

    w, value = centre, objective(centre)
    for _ in range(_STEPS):
        q = expit(features @ w)
        hessian = features.T @ (features * (q * (1.0 - q))[:, None]) + np.diag(prior)
        step = np.linalg.solve(hessian, features.T @ (q - z) + prior * (w - centre))
        if np.abs(features @ step).max() < _CLOSE:
            break
        size = 1.0
        while (reached := objective(w - size * step)) > value and size > _CLOSE:
            size *= 0.5
        w, value = w - size * step, reached
    h = np.vecdot(features, np.linalg.solve(hessian, features.T).T)
    return features @ w - h * (z - q) / (1.0 - h * q * (1.0 - q))


def _rates(p: FloatArray, z: FloatArray) -> tuple[float, float]:
    """Shares of the confident cells given on that are off, and given off that are on."""
    on = z == 1.0
    if on.all() or not on.any():
        return 0.0, 0.0
    # Means of equal numbers may be off by rounding.
    seems_on, seems_off = p >= p[on].mean() - _NEAREST, p <= p[~on].mean() + _NEAREST
    both = seems_on & seems_off
    seems_on, seems_off = seems_on & ~(both & (p <= 0.5)), seems_off & ~(both & (p > 0.5))

    def share(wrong: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
        return float(wrong.sum() / max(wrong.sum() + right.sum(), 1))

    return share(on & seems_off, on & seems_on), share(~on & seems_on, ~on & seems_off)


class _Top:
    """The cells of the highest odds; of equal ones those of the first rows, then labels."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cells: list[tuple[NDArray[Any], ...]] = []
        self._n_cells, self._least = 0, -np.inf

    def add(self, label: int, odds: FloatArray, partner: NDArray[np.intp]) -> None:
        rows = np.flatnonzero(odds >= self._least)
        self._cells.append((rows, np.full(len(rows), label), odds[rows], partner[rows]))
        self._n_cells += len(rows)
        if self._n_cells > 2 * self._most + len(odds):
            self._cells = [self.best()]
            self._n_cells, self._least = self._most, self._cells[0][2][-1]

    def best(self) -> tuple[NDArray[Any], ...]:
        rows, labels, odds, partners = map(np.concatenate, zip(*self._cells, strict=True))
        first = np.lexsort((labels, rows, -odds))[: self._most]
        return rows[first], labels[first], odds[first], partners[first]
