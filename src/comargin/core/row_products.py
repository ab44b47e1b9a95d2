"""Products of many rows with a weight matrix, in threads; the same result for any number of them."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
import scipy.sparse as sp

from .row_blocks import row_blocks

# Parts of a product that a thread takes at once; fixed, so that the result does not depend on the threads. Products of
# fewer operations than a thread costs to wake are done in one part.
_ROWS, _COLUMNS = 512, 64
_WORTH_A_THREAD = 4_000_000
# Inner products of blocks of rows are kept up to this many bytes.
_GRAM_BYTES = 2**28


class RowProducts:
    """X W and X^T Q for dense and CSR rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Rows.
    pool : Executor
        Threads.
    """

    def __init__(self, X: np.ndarray | sp.csr_array, pool: Executor) -> None:
        self.X, self.pool = X, pool
        self._parts: dict[tuple[int, int], sp.csr_array] = {}
        self._grams: dict[tuple[int, int], np.ndarray] = {}

    @property
    def n_rows(self) -> int:
        """Rows."""
        return int(self.X.shape[0])

    def zeros(self, n_columns: int) -> np.ndarray:
        """Weights without any.

        Parameters
        ----------
        n_columns : int
            Columns.

        Returns
        -------
        ndarray of shape (n_features, n_columns)
            In the order that products are fastest with.
        """
        return self.arranged(np.zeros((self.X.shape[1], n_columns)))

    def arranged(self, W: np.ndarray) -> np.ndarray:
        """Weights in the order that products are fastest with: rounding depends on it, so that it is always the same.

        Parameters
        ----------
        W : ndarray of shape (n_features, n_columns)
            Weights.

        Returns
        -------
        ndarray of shape (n_features, n_columns)
            A copy if they were in another order.
        """
        return np.asfortranarray(W) if isinstance(self.X, np.ndarray) else np.ascontiguousarray(W)

    def take(self, rows: np.ndarray) -> RowProducts:
        """The same for some rows.

        Parameters
        ----------
        rows : int ndarray
            Which, increasing.

        Returns
        -------
        RowProducts
            With copies of the rows, or itself when these are all.
        """
        return self if len(rows) == self.n_rows else RowProducts(self.X[rows], self.pool)

    def part(self, rows: slice) -> np.ndarray | sp.csr_array:
        """Consecutive rows, not copied.

        Parameters
        ----------
        rows : slice
            With start and stop.

        Returns
        -------
        ndarray or csr_array of shape (n_rows, n_features)
            A view.
        """
        if isinstance(self.X, np.ndarray):
            return self.X[rows]
        known = self._parts.get((rows.start, rows.stop))  # to make one takes longer than many products with it
        if known is not None:
            return known
        first, last = self.X.indptr[rows.start], self.X.indptr[rows.stop]
        pointers = self.X.indptr[rows.start : rows.stop + 1] - first
        shape = (rows.stop - rows.start, self.X.shape[1])
        part = sp.csr_array((self.X.data[first:last], self.X.indices[first:last], pointers), shape=shape)
        self._parts[rows.start, rows.stop] = part
        return part

    def keeps_gram(self, n_rows: int) -> bool:
        """Whether inner products of blocks of so many rows are kept.

        Parameters
        ----------
        n_rows : int
            Rows of a block.

        Returns
        -------
        bool
            True if those of all blocks take little memory.
        """
        return 8 * n_rows * self.n_rows <= _GRAM_BYTES

    def gram(self, rows: slice) -> np.ndarray:
        """Inner products of consecutive rows, kept for the next time as long as all take little memory.

        Parameters
        ----------
        rows : slice
            With start and stop.

        Returns
        -------
        ndarray of shape (n_rows, n_rows)
            Not to be changed.
        """
        gram = self._grams.get((rows.start, rows.stop))
        if gram is None:
            X = self.part(rows)
            gram = X @ X.T if isinstance(X, np.ndarray) else (X @ X.T).toarray()
            if self.keeps_gram(rows.stop - rows.start):
                self._grams[rows.start, rows.stop] = gram
        return gram

    def forward(self, W: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """X W.

        Parameters
        ----------
        W : ndarray of shape (n_features, n_columns)
            Weights.
        rows : slice or None
            Some rows; all if None.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            In C order.
        """
        X = self.X if rows is None else self.part(rows)
        if self._operations(X, W.shape[1]) < _WORTH_A_THREAD:
            return np.ascontiguousarray(X @ W)
        out = np.empty((X.shape[0], W.shape[1]))
        products = self if rows is None else RowProducts(X, self.pool)

        def write(part: slice) -> None:
            out[part] = products.part(part) @ W

        list(self.pool.map(write, row_blocks(X.shape[0], max(min(_ROWS, X.shape[0] // 2), 1))))
        return out

    def backward(self, Q: np.ndarray) -> np.ndarray:
        """X^T Q.

        Parameters
        ----------
        Q : ndarray of shape (n_rows, n_columns)
            Coefficients of the rows.

        Returns
        -------
        ndarray of shape (n_features, n_columns)
            Sums.
        """
        out = self.zeros(Q.shape[1])
        self.add(slice(0, self.n_rows), Q, out)
        return out

    def add(self, rows: slice, Q: np.ndarray, V: np.ndarray) -> None:
        """V += X_rows^T Q.

        Parameters
        ----------
        rows : slice
            With start and stop.
        Q : ndarray of shape (n_rows, n_columns)
            Coefficients of the rows.
        V : ndarray of shape (n_features, n_columns)
            Of ``zeros``; changed.
        """
        X = self.part(rows)
        large = self._operations(X, Q.shape[1]) >= _WORTH_A_THREAD
        if not (isinstance(X, np.ndarray) and large and V.flags.f_contiguous):
            V += X.T @ Q
            return

        def write(columns: slice) -> None:
            V.T[columns] += Q[:, columns].T @ X  # by rows of memory, as V is in Fortran's order

        n_parts = 2 * -(-Q.shape[1] // (2 * _COLUMNS))
        list(self.pool.map(write, row_blocks(Q.shape[1], -(-Q.shape[1] // n_parts))))

    @staticmethod
    def _operations(X: np.ndarray | sp.csr_array, n_columns: int) -> int:
        return int(X.size) * n_columns
