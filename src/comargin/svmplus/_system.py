"""The Newton systems of SVM+: Gram matrices of chosen rows, and the factorised system of one label."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels._cholesky import cholesky, solve_factored, solve_lower, solve_upper
from ..kernels._prml import prml_average, prml_gram, prml_scores, prml_signed_gram, prml_signs_gram
from ..kernels._rows import CSR
from ..problems.prml import PrivilegedSets

# Parts of a Gram matrix that threads compute.
_GRAM_PARTS = 8
# Directions of X shorter than this, relative to the longest, are rounding.
_SPAN = 1e-7


class Features:
    """X with the products the steps need.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Rows.
    view : ndarray or CSR
        X as the kernels take it.
    """

    def __init__(self, X: np.ndarray | sp.csr_array, view: np.ndarray | CSR) -> None:
        self.X, self.view = X, view
        self.n_samples, self.n_features = X.shape

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """X Z."""
        if isinstance(self.X, np.ndarray) or Z.shape[1] == 1:
            return np.asarray(self.X @ Z)
        out = np.empty((self.n_samples, Z.shape[1]))
        prml_scores(self.view, np.ascontiguousarray(Z), out)
        return out

    def average(self, signed: np.ndarray) -> np.ndarray:
        """X^T ``signed``."""
        if isinstance(self.X, np.ndarray):
            return np.asarray(self.X.T @ signed)
        V = np.zeros((self.n_features, signed.shape[1]))
        prml_average(self.view, np.ascontiguousarray(signed), V)
        return V

    def moments(self, rows: np.ndarray) -> np.ndarray:
        """X_r^T X_r of the given rows."""
        chosen = self.X[rows]
        product = chosen.T @ chosen
        return product if isinstance(product, np.ndarray) else product.toarray()

    @property
    def n_compact(self) -> int:
        """Coordinates that all rows can be given in: X has no more dimensions than rows."""
        return min(self.n_samples, self.n_features)

    @cached_property
    def _span(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows in coordinates of their own span, X = compact Q^T, and the matrix that makes Q^T V of X V."""
        gram = self.X @ self.X.T
        values, vectors = np.linalg.eigh(gram if isinstance(gram, np.ndarray) else gram.toarray())
        roots = np.sqrt(np.maximum(values, 0.0))
        there = roots > _SPAN * roots[-1]
        return vectors * np.where(there, roots, 0.0), vectors.T / np.where(there, roots, np.inf)[:, None]

    def compact(self, rows: np.ndarray) -> np.ndarray:
        """The given rows in ``n_compact`` coordinates, with all products between them as they are."""
        if self.n_samples < self.n_features:
            return self._span[0][rows]
        chosen = self.X[rows]
        return chosen if isinstance(chosen, np.ndarray) else chosen.toarray()

    def compact_weights(self, V: np.ndarray) -> np.ndarray:
        """V, columns in the span of the rows, in the coordinates of ``compact``."""
        return V if self.n_samples >= self.n_features else np.asarray(self._span[1] @ self.scores(V))


def privileged_gram(sets: PrivilegedSets, label: int, weight: np.ndarray) -> np.ndarray:
    """Sum of weight_g yt_g yt_g^T over the label sets, in the places of T that a label uses.

    Parameters
    ----------
    sets : PrivilegedSets
        The privileged features yt.
    label : int
        The label.
    weight : ndarray of shape (n_sets,)
        Weights; sets of weight 0 cost nothing.

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
        Symmetric.
    """
    gram, sums = signs_gram(sets, weight)
    if sets.intercept:  # the label's own element is 1 in place of its sign
        sums[label] = gram[label, label]
        gram[label], gram[:, label] = sums, sums
    columns = sets.columns(label)
    return gram if len(columns) == len(gram) else gram[np.ix_(columns, columns)]


def signs_gram(sets: PrivilegedSets, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of weight_g s_g s_g^T and of weight_g s_g over the label sets, s_g their signs.

    Parameters
    ----------
    sets : PrivilegedSets
        The label sets.
    weight : ndarray of shape (n_sets,)
        Weights.

    Returns
    -------
    gram : ndarray of shape (n_labels, n_labels)
        Symmetric.
    sums : ndarray of shape (n_labels,)
        Of the signs.
    """
    n_labels = sets.sets.shape[1]
    gram, sums = np.empty((n_labels, n_labels)), np.empty(n_labels)
    prml_signs_gram(sets.on.indptr, sets.on.indices, weight, gram, sums)
    return gram, sums


def _as_csr(M: sp.csr_array) -> CSR:
    """As kernels take it."""
    return CSR(M.data, M.indices.astype(np.int32, copy=False), M.indptr.astype(np.int32, copy=False))


class RowGram:
    """Products between rows of X, kept for the rows that were asked for so far.

    Parameters
    ----------
    features : Features
        X.
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self.position = np.full(features.n_samples, -1, dtype=np.int64)
        self.rows = np.empty(0, dtype=np.int64)
        self.matrix = np.empty((0, 0))

    def signed(self, rows: np.ndarray, signs: np.ndarray, scale: float, ridge: float) -> np.ndarray:
        """``scale`` (s s^T) o K + ``ridge`` I of the given rows; its lower triangle."""
        if isinstance(self.features.X, np.ndarray):
            chosen = signs[:, None] * self.features.X[rows]
            gram = scale * (chosen @ chosen.T)
            gram.flat[:: rows.size + 1] += ridge
            return np.asarray(gram)
        self.require(rows)
        gram = np.empty((rows.size, rows.size))
        prml_signed_gram(self.matrix, self.position[rows], signs, scale, ridge, gram)
        return gram

    def require(self, rows: np.ndarray, run: Callable[..., Iterable[Any]] = map) -> None:
        """Compute what is missing for ``rows`` of a sparse X; ``run`` maps a function over parts of the rows."""
        new = rows[self.position[rows] < 0]
        if not new.size:
            return
        n_known = len(self.rows)
        self.rows = np.concatenate([self.rows, new])
        self.position[new] = np.arange(n_known, len(self.rows))
        if len(self.rows) > len(self.matrix):
            size = min(max(len(self.rows), 3 * n_known // 2), self.features.n_samples)
            grown = np.empty((size, size))
            grown[:n_known, :n_known] = self.matrix[:n_known, :n_known]
            self.matrix = grown
        # Row a has a products: parts of equal work.
        n_parts, n_all = min(_GRAM_PARTS, new.size), len(self.rows)
        ends = np.sqrt(np.linspace(float(n_known) ** 2, float(n_all) ** 2, n_parts + 1)).astype(np.int64)
        ends[0], ends[-1] = n_known, n_all

        known = sp.csr_array(self.features.X[self.rows])
        view, columns = _as_csr(known), _as_csr(sp.csr_array(known.T))

        def part(first: int, last: int) -> None:
            prml_gram(view, columns, first, last, self.matrix)

        list(run(part, ends[:-1], ends[1:]))


class LabelSystem:
    r"""Newton system of one label.

    With the active rows x_j (signs s, privileged features U), r = R_ll and H = gamma2 I + tau U_b^T U_b (U_b those of
    label sets with an active bound, tau the penalty of slacks):

    .. math:: (I / \sigma + r\, (s s^\top) \circ K)\, z - U t = f, \qquad U^\top z + H t = g

    z is solved through the rows (a matrix of their number) or through the features, whichever are fewer, and t through
    the Schur complement.

    Parameters
    ----------
    rows : int ndarray of shape (p,)
        Active rows.
    signs : ndarray of shape (p,)
        Their signs.
    U : ndarray of shape (p, q)
        Their privileged features.
    H : ndarray of shape (q, q)
        As above.
    r, sigma : float
        As above.
    """

    def __init__(
        self, rows: np.ndarray, signs: np.ndarray, U: np.ndarray, H: np.ndarray, r: float, sigma: float
    ) -> None:
        self.rows, self.signs, self.U, self.H, self.r, self.sigma = rows, signs, U, H, r, sigma
        self.inner: np.ndarray | None = None
        self.outer: np.ndarray | None = None

    def factorise(self, features: Features, gram: RowGram) -> None:
        """Prepare ``solve``.

        Parameters
        ----------
        features : Features
            X.
        gram : RowGram
            Of X.
        """
        rows, signs, r = self.rows, self.signs, self.r
        if r > 0.0 and rows.size <= features.n_features:
            self.inner = cholesky(gram.signed(rows, signs, r, 1.0 / self.sigma))
            self.half = solve_lower(self.inner, self.U)
            self.schur = cholesky(self.H + self.half.T @ self.half)
            return
        if r > 0.0:
            M = features.moments(rows)
            M.flat[:: features.n_features + 1] += 1.0 / (self.sigma * r)
            self.outer, self.X = cholesky(M), features.X[rows]
        self.BU = self._inverse(self.U)
        self.schur = cholesky(self.H + self.U.T @ self.BU)

    def _inverse(self, right: np.ndarray) -> np.ndarray:
        """(I / sigma + r (s s^T) o K)^-1 right, through the features."""
        if self.outer is None:
            return self.sigma * right
        signs = self.signs if right.ndim == 1 else self.signs[:, None]
        through = solve_factored(self.outer, self.X.T @ (signs * right))
        return np.asarray(self.sigma * (right - signs * (self.X @ through)))

    def solve(self, f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z and t."""
        if self.inner is not None:
            z = solve_lower(self.inner, f)
            t = solve_factored(self.schur, g - self.half.T @ z)
            return solve_upper(self.inner, z + self.half @ t), t
        z = self._inverse(f)
        t = solve_factored(self.schur, g - self.U.T @ z)
        return z + self.BU @ t, t

    @cached_property
    def _factor(self) -> np.ndarray:
        """Factor of H."""
        return cholesky(self.H)

    def weights(self, g: np.ndarray) -> np.ndarray:
        """H^-1 g."""
        return solve_factored(self._factor, g)
