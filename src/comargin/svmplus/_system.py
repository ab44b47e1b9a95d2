"""The Newton systems of SVM+: products with the rows, and the factorised system of one label."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.cholesky import cholesky, solve_factored, solve_lower, solve_upper
from ..core.row_blocks import row_blocks, squared_lengths
from ..core.rows import CSR
from ..core.validation import loop_view
from ._loops import add_pairs, add_rows, signed_products
from .problem import PrivilegedSets

Run = Callable[..., Iterable[Any]]  # maps a function over items, as map does

# Directions of X shorter than this, relative to the longest, are rounding.
_SPAN = 1e-7
# Most rows of a Gram matrix that is kept whole, for all labels: 128 MB; and how many are computed at once.
_MOST_GRAM_ROWS, _AT_ONCE = 4096, 512


class Features:
    """X with the products the steps need; ``view`` is X as compiled loops take it."""

    def __init__(self, X: np.ndarray | sp.csr_array, view: np.ndarray | CSR) -> None:
        self.X, self.view = X, view
        self.n_samples, self.n_features = X.shape

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """X Z."""
        return np.asarray(self.X @ Z)

    def average(self, signed: np.ndarray) -> np.ndarray:
        """X^T ``signed``."""
        if isinstance(self.X, np.ndarray):
            return self.X.T @ signed
        V = np.zeros((self.n_features, signed.shape[1]))
        add_rows(self.view, np.ascontiguousarray(signed, dtype=np.float64), V)
        return V

    @cached_property
    def sqnorm(self) -> np.ndarray:
        """Squared lengths of the rows."""
        return squared_lengths(self.X)

    @cached_property
    def products(self) -> np.ndarray | None:
        """X X^T where it is worth keeping: X is sparse and has few rows."""
        if isinstance(self.X, np.ndarray) or self.n_samples > _MOST_GRAM_ROWS:
            return None
        return np.hstack([self.scores(as_dense(self.X[rows]).T) for rows in row_blocks(self.n_samples, _AT_ONCE)])

    def gram(self, rows: np.ndarray, signs: np.ndarray, ridge: float) -> np.ndarray:
        """(s s^T) o K + ridge I, K the products between the given rows; its lower triangle."""
        K, places = self.products, rows
        if K is None:
            K, places = as_dense(self.X[rows] @ self.X[rows].T), np.arange(rows.size)
        gram = np.empty((rows.size, rows.size))
        signed_products(K, places, signs, gram)
        gram.flat[:: rows.size + 1] += ridge
        return gram

    @property
    def n_compact(self) -> int:
        """Coordinates that all rows can be given in: X has no more dimensions than rows."""
        return min(self.n_samples, self.n_features)

    @cached_property
    def _span(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows in coordinates of their own span, X = compact Q^T, and the matrix that makes Q^T V of X V."""
        values, vectors = np.linalg.eigh(as_dense(self.X @ self.X.T))
        roots = np.sqrt(np.maximum(values, 0.0))
        there = roots > _SPAN * roots[-1]
        return vectors * np.where(there, roots, 0.0), vectors.T / np.where(there, roots, np.inf)[:, None]

    def compact(self, rows: np.ndarray) -> np.ndarray:
        """The given rows in ``n_compact`` coordinates, with all products between them as they are."""
        return self._span[0][rows] if self.n_samples < self.n_features else as_dense(self.X[rows])

    def compact_weights(self, V: np.ndarray) -> np.ndarray:
        """V, columns in the span of the rows, in the coordinates of ``compact``."""
        return V if self.n_samples >= self.n_features else np.asarray(self._span[1] @ self.scores(V))


def as_dense(M: np.ndarray | sp.sparray) -> np.ndarray:
    return M if isinstance(M, np.ndarray) else np.asarray(M.toarray())


def signs_gram(sets: PrivilegedSets, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of weight_g s_g s_g^T and of weight_g s_g over the label sets, s_g their signs."""
    total, gram = weight.sum(), np.zeros((sets.sets.shape[1],) * 2)
    add_pairs(loop_view(sets.above), weight, gram)
    sums = sets.above_transposed @ weight - total
    return gram - (sums + sums[:, None]) - total, sums  # s = above - 1


def privileged_gram(sets: PrivilegedSets, label: int, weight: np.ndarray, ridge: float) -> np.ndarray:
    """Sum of weight_g yt_g yt_g^T over the label sets, plus ridge I, in the coordinates of a label."""
    gram, sums = signs_gram(sets, weight)
    if sets.intercept:  # the label's own element is 1 in place of its sign
        sums[label] = gram[label, label] + weight @ (sets.sets[:, label] == 0)
        gram[label], gram[:, label] = sums, sums
    columns = sets.columns(label)
    gram = gram if len(columns) == len(gram) else gram[np.ix_(columns, columns)]
    if label in sets.bases:
        gram = sets.bases[label].T @ gram @ sets.bases[label]
    gram.flat[:: len(gram) + 1] += ridge
    return gram


class LabelSystem:
    r"""Newton system of one label.

    With the active rows x_j (signs s, privileged features U), r = R_ll and H = gamma2 I + sigma U_b^T U_b (U_b those of
    label sets with an active bound):

    .. math:: (I / \sigma + r\, (s s^\top) \circ K)\, z - U t = f, \qquad U^\top z + H t = g

    z is solved through the rows (a matrix of their number) or through the features, whichever are fewer, and t through
    the Schur complement.
    """

    def __init__(
        self, rows: np.ndarray, signs: np.ndarray, U: np.ndarray, H: np.ndarray, r: float, sigma: float
    ) -> None:
        self.rows, self.signs, self.U, self.H, self.r, self.sigma = rows, signs, U, H, r, sigma
        self.inner: np.ndarray | None = None
        self.outer: np.ndarray | None = None

    def factorise(self, features: Features) -> None:
        """Prepare ``solve``."""
        rows, signs, r = self.rows, self.signs, self.r
        if r > 0.0 and rows.size <= features.n_features:
            self.inner = cholesky(features.gram(rows, np.sqrt(r) * signs, 1.0 / self.sigma))
            self.half = solve_lower(self.inner, self.U)
            self.schur = cholesky(self.H + self.half.T @ self.half)
            return
        if r > 0.0:
            self.X = features.X[rows]
            M = as_dense(self.X.T @ self.X)
            M.flat[:: features.n_features + 1] += 1.0 / (self.sigma * r)
            self.outer = cholesky(M)
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
