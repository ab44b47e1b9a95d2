r"""Splits of multi-label data in which every part has its share of every label.

`MultilabelStratifiedKFold` and `MultilabelStratifiedShuffleSplit` behave as scikit-learn's `KFold` and
`ShuffleSplit` (same arguments, sizes, errors and ``random_state``), but balance the labels.

Method: iterative stratification (Sechidis et al., 2011) with two changes. Write :math:`t_{lp}` for the number
of rows with label l that part p should get (its share of them), and :math:`d_{lp}` for what it still lacks.
Labels are taken from the rarest to the most frequent, counted over the rows not yet placed; each row with the
label goes to a part that is *open* for it:

1. parts that lack a whole row (:math:`d_{lp} \ge 1`), else parts that lack a fraction (:math:`d_{lp} > 0`),
   else the parts that exceed their share least. All open parts end within one row of their share, whichever
   is taken first. The original takes the part with the largest :math:`d_{lp}`, which leaves no choice;
2. among the open parts, the one that lacks most of *all* labels of the row, each relative to its frequency,
   :math:`\max_p \sum_{l \in \mathrm{row}} d_{lp} / t_{lp}`. The original looks at one label only.

Part sizes are a hard limit, so folds differ by at most one row. A label that is a whole row or more away from
its share in the end (few are) is repaired by exchanging rows between parts; of the states passed
through, the one with the least imbalance of all labels together, :math:`\sum_{lp} d_{lp}^2 / n_l`, is kept.
The cost is O(folds) per stored one of Y, and O(1) per stored one and repair.

References
----------
K. Sechidis, G. Tsoumakas, I. Vlahavas. On the stratification of multi-label data. ECML PKDD 2011, 145-158.
https://doi.org/10.1007/978-3-642-23808-6_10
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils import check_random_state

from .core.indicator import check_indicator, refuse_label_sets, split_unknown

__all__ = ["MultilabelStratifiedKFold", "MultilabelStratifiedShuffleSplit", "label_imbalance"]

IntArray = NDArray[np.int64]

# Rounding of a share, which is a sum of a few floats.
_TINY = 1e-9
_MAX_REPAIR_PASSES = 20


class MultilabelStratifiedKFold(KFold):
    """K folds with, as nearly as possible, the same number of rows of every label.

    Each row is in exactly one test fold. Fold sizes are those of `sklearn.model_selection.KFold`: the first
    ``n_samples % n_splits`` folds have one row more.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Visit the rows in random order, so that another seed gives other folds. Without it the folds depend on
        the data alone. The indices returned are sorted either way.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling; an int gives the same folds on every call. Only with ``shuffle=True``.

    Notes
    -----
    A label with fewer rows than folds is spread over as many folds as it has rows, without a warning: in
    multi-label data some labels nearly always are that rare. Rows without labels fill the folds up.

    ``split(X, y)`` yields sorted indices; ``y`` is the {0, 1} label indicator or one class per row, and of X only the
    number of rows is used. A 1-D ``y`` (binary or multiclass) is stratified by class.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.model_selection import MultilabelStratifiedKFold
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> for train, test in MultilabelStratifiedKFold(n_splits=2).split(Y, Y):
    ...     print(test, Y[test].sum(axis=0))
    [0 2 4] [2 1]
    [1 3 5] [2 1]
    """

    def _iter_test_masks(self, X: Any, y: Any = None, groups: object = None) -> Iterator[NDArray[np.bool_]]:
        Y = _label_rows(y)
        n_samples = Y.shape[0]
        sizes = np.full(self.n_splits, n_samples // self.n_splits)
        sizes[: n_samples % self.n_splits] += 1
        order = np.arange(n_samples)
        if self.shuffle:
            check_random_state(self.random_state).shuffle(order)
        # Equal shares, although the sizes may differ by a row: equal needs leave more parts to choose from.
        part = _stratify(Y, order, sizes, np.full(self.n_splits, 1 / self.n_splits))
        for fold in range(self.n_splits):
            yield part == fold


class MultilabelStratifiedShuffleSplit(ShuffleSplit):
    """Random train/test splits with, as nearly as possible, the right share of every label in both.

    Parameters
    ----------
    n_splits : int, default=10
        Number of independent splits.
    test_size : float, int or None, default=None
        Fraction or number of test rows; None means the complement of ``train_size``, 0.1 if that is None too.
    train_size : float, int or None, default=None
        Fraction or number of training rows; None means the complement of ``test_size``.
    random_state : int, RandomState instance or None, default=None
        Seed; an int gives the same splits on every call.

    Notes
    -----
    Sizes are those of `sklearn.model_selection.ShuffleSplit`. Rows that are in neither part, when the two
    sizes do not add up to everything, are stratified as well. As in scikit-learn the indices
    come in random order.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.model_selection import MultilabelStratifiedShuffleSplit
    >>> Y = np.repeat([[1, 0], [1, 1], [0, 0]], 20, axis=0)
    >>> splitter = MultilabelStratifiedShuffleSplit(n_splits=1, test_size=0.25, random_state=0)
    >>> train, test = next(splitter.split(Y, Y))
    >>> Y[train].sum(axis=0), Y[test].sum(axis=0)
    (array([30, 15]), array([10,  5]))
    """

    def _iter_indices(
        self, X: Any, y: Any = None, groups: object = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        Y = _label_rows(y)
        n_samples = Y.shape[0]
        # scikit-learn's own rules for the two sizes, and its errors.
        plain = ShuffleSplit(n_splits=1, test_size=self.test_size, train_size=self.train_size, random_state=0)
        n_train, n_test = (len(rows) for rows in next(plain.split(np.empty(n_samples))))
        sizes = np.array([n_train, n_test, n_samples - n_train - n_test])
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            part = _stratify(Y, rng.permutation(n_samples), sizes, sizes / n_samples)
            train, test = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
            yield rng.permutation(train), rng.permutation(test)


def label_imbalance(Y: Any, test_folds: Iterable[Any]) -> float:
    """Mean distance of the rows of a label in a test fold from its share, in rows.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels) or (n_samples,)
        The {0, 1} label indicator, or one class per row.
    test_folds : iterable of index arrays
        The test rows of each fold, e.g. ``[test for _, test in splitter.split(X, Y)]``.

    Returns
    -------
    float
        Mean over folds p and non-empty labels l of ``abs(c_lp - n_l * s_p / n)``, where ``c_lp`` counts the
        rows of label l in fold p, ``n_l`` those in all n rows, and ``s_p`` is the size of the fold. The best
        whole numbers are within 1 of their share; a random fold is about ``sqrt(n_l / k)`` away.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.model_selection import label_imbalance
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> label_imbalance(Y, [[0, 1], [2, 3]]), label_imbalance(Y, [[0, 2], [1, 3]])
    (1.0, 0.0)
    """
    labels = _label_rows(Y)
    counts = np.asarray(labels.sum(axis=0, dtype=np.int64)).ravel()
    present = counts > 0
    if not present.any():
        return 0.0
    distances = []
    for fold in test_folds:
        in_fold = np.asarray(labels[np.asarray(fold)].sum(axis=0, dtype=np.int64)).ravel()
        share = counts * (len(fold) / labels.shape[0])
        distances.append(np.abs(in_fold - share)[present].mean())
    return float(np.mean(distances))


def _label_rows(y: Any) -> sparse.csr_array:
    """Label indicator as canonical CSR, off in unknown cells; a 1-D y becomes one label per class."""
    if y is None:
        raise ValueError("y must be given: the {0, 1} label indicator, or one class per row.")
    if not sparse.issparse(y):
        refuse_label_sets(y, "y")
        y = np.asarray(y)
        if y.ndim == 1:
            classes, codes = np.unique(y, return_inverse=True)
            indptr = np.arange(len(y) + 1)
            return sparse.csr_array((np.ones(len(y), dtype=np.int8), codes, indptr), shape=(len(y), len(classes)))
    return check_indicator(split_unknown(y, "y")[0], "y")


def _stratify(Y: sparse.csr_array, order: IntArray, sizes: IntArray, shares: NDArray[np.float64]) -> IntArray:
    """Part of every row (see the module's text); rows of a label are placed in the given order.

    Plain lists, not arrays: a row touches few labels and parts, and a NumPy call costs more than that work.
    """
    n_samples = Y.shape[0]
    visited = Y[order]
    rows_of_label = visited.tocsc()
    counts = np.diff(rows_of_label.indptr)
    indices, indptr = visited.indices.tolist(), visited.indptr.tolist()

    lacks = np.outer(counts, shares).tolist()
    # d_lp / t_lp = d_lp / (share_p * n_l)
    rarity = (1.0 / np.maximum(counts, 1)).tolist()
    per_share = [1.0 / share if share > 0 else 0.0 for share in shares.tolist()]
    free = sizes.tolist()
    part = [-1] * n_samples

    waiting = counts.tolist()
    queue = [(count, label) for label, count in enumerate(waiting) if count]
    heapq.heapify(queue)
    while queue:
        count, label = heapq.heappop(queue)
        if count != waiting[label]:
            # Some of its rows went with a rarer label meanwhile: queue it again at its present count.
            if waiting[label]:
                heapq.heappush(queue, (waiting[label], label))
            continue
        lack = lacks[label]
        for row in rows_of_label.indices[rows_of_label.indptr[label] : rows_of_label.indptr[label + 1]].tolist():
            if part[row] >= 0:
                continue
            labels = indices[indptr[row] : indptr[row + 1]]
            best, best_need = -1, (-np.inf, -np.inf)
            for p in _open_parts(lack, free):
                need = 0.0
                for other in labels:
                    need += rarity[other] * lacks[other][p]
                candidate = (need * per_share[p], free[p] * per_share[p])
                if candidate > best_need:
                    best, best_need = p, candidate
            part[row] = best
            free[best] -= 1
            for other in labels:
                lacks[other][best] -= 1.0
                waiting[other] -= 1

    placed = np.array(part, dtype=np.int64)
    without_label = np.flatnonzero(placed < 0)
    # Deal the rows without labels in turn, so that the parts do not become runs of neighbouring rows.
    turns = np.concatenate([np.arange(f) / f for f in free if f > 0] or [np.empty(0)])
    dealt = np.repeat(np.arange(len(free)), free)
    placed[without_label] = dealt[np.argsort(turns, kind="stable")]
    _repair(visited, rows_of_label, placed, shares)

    result = np.empty(n_samples, dtype=np.int64)
    result[order] = placed
    return result


def _repair(Y: sparse.csr_array, rows_of_label: sparse.csc_array, part: IntArray, shares: NDArray[np.float64]) -> None:
    """Exchange rows between parts, in place, for labels that are a whole row or more away from their share.

    With e_lp = rows of label l in part p minus its share, weight w_l = 1 / n_l and g_l = 2 w_l (e_lq - e_lp),
    moving row a from p to q and row b from q to p changes sum_lp w_l e_lp^2 by
        sum_{l in a} (2 w_l + g_l) + sum_{l in b} (2 w_l - g_l) - 4 sum_{l in a and b} w_l.
    Exchanges lower the sum until none does; then one pass may raise it by up to w_l, which hands the excess
    on to a label with a better row to move. The best state at the start of a pass is the result.
    """
    totals = np.diff(rows_of_label.indptr)
    weight = 1.0 / np.maximum(totals, 1)
    rows = np.arange(len(part))
    members = sparse.csr_array((np.ones(len(part)), (part, rows)), shape=(len(shares), len(part)))
    excess = (members @ Y).toarray() - np.outer(shares, totals)
    least, best, sideways = np.inf, part.copy(), False
    for _ in range(_MAX_REPAIR_PASSES):
        imbalance = float((excess**2 @ weight).sum())
        if imbalance < least - _TINY:
            least, best = imbalance, part.copy()
        off = np.flatnonzero(np.abs(excess).max(axis=0) > 1 - _TINY)
        exchanged = False
        for label in off[np.argsort(totals[off], kind="stable")]:
            source, target = np.argmax(excess[:, label]), np.argmin(excess[:, label])
            holders = rows_of_label.indices[rows_of_label.indptr[label] : rows_of_label.indptr[label + 1]]
            away = holders[part[holders] == source]
            back = np.setdiff1d(np.flatnonzero(part == target), holders, assume_unique=True)
            # An earlier exchange of this pass may have put the label right.
            right = max(excess[source, label], -excess[target, label]) <= 1 - _TINY
            if right or len(away) == 0 or len(back) == 0:
                continue
            slope = 2 * weight * (excess[target] - excess[source])
            away_cost, back_cost = Y[away] @ (2 * weight + slope), Y[back] @ (2 * weight - slope)
            a, b = away[np.argmin(away_cost)], back[np.argmin(back_cost)]
            labels_a = Y.indices[Y.indptr[a] : Y.indptr[a + 1]]
            labels_b = Y.indices[Y.indptr[b] : Y.indptr[b + 1]]
            common = np.intersect1d(labels_a, labels_b, assume_unique=True)
            change = away_cost.min() + back_cost.min() - 4 * weight[common].sum()
            if change < sideways * weight[label] - _TINY:
                part[a], part[b] = target, source
                excess[source, labels_a] -= 1
                excess[target, labels_a] += 1
                excess[source, labels_b] += 1
                excess[target, labels_b] -= 1
                exchanged = True
        if sideways and not exchanged:
            break
        sideways = not exchanged
    part[:] = best


def _open_parts(lack: list[float], free: list[int]) -> list[int]:
    """Parts with room that may take the next row of a label, by what they lack of it."""
    whole = [p for p, room in enumerate(free) if room and lack[p] > 1.0 - _TINY]
    if whole:
        return whole
    room = [p for p, left in enumerate(free) if left]
    fraction = [p for p in room if lack[p] > _TINY]
    if fraction:
        return fraction
    least_excess = max(lack[p] for p in room) - _TINY
    return [p for p in room if lack[p] >= least_excess]
