"""Products of many rows with a weight matrix, in threads; the same result for any number of them."""

from concurrent.futures import Executor

import numpy as np
import scipy.sparse as sp

from .row_blocks import row_blocks
from .rows import CSR, add_rows

# Rows and columns of a product that a thread takes at once; fixed, so that the result does not depend on the threads.
_ROWS, _COLUMNS = 512, 64
# Multiply-adds below which waking a thread costs more than it saves.
_WORTH_A_THREAD = 4_000_000
# Memory for cached inner products of blocks of rows, in bytes.
_GRAM_BYTES = 2**28


class RowProducts:
    """X W and X^T Q for dense or CSR rows X of shape (n_samples, n_features), in the threads of ``pool``."""

    def __init__(self, X: np.ndarray | sp.csr_array, pool: Executor) -> None:
        self.X, self.pool = X, pool
        self._parts: dict[tuple[int, int], sp.csr_array] = {}
        self._grams: dict[tuple[int, int], np.ndarray] = {}

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def zeros(self, n_columns: int) -> np.ndarray:
        """Zero weights of shape (n_features, n_columns), in the memory order of ``arranged``."""
        return self.arranged(np.zeros((self.X.shape[1], n_columns)))

    def arranged(self, W: np.ndarray) -> np.ndarray:
        """W in the memory order of the fastest products: Fortran for dense X, C for CSR.

        Rounding depends on the order, so all weights have the same.
        """
        return np.asfortranarray(W) if isinstance(self.X, np.ndarray) else np.ascontiguousarray(W)

    def take(self, rows: np.ndarray) -> "RowProducts":
        """The same for copies of some rows, given in increasing order; itself if these are all."""
        return self if len(rows) == self.n_rows else RowProducts(self.X[rows], self.pool)

    def part(self, rows: slice) -> np.ndarray | sp.csr_array:
        """Consecutive rows as a view; ``rows`` has a start and a stop."""
        if isinstance(self.X, np.ndarray):
            return self.X[rows]
        key = rows.start, rows.stop
        known = self._parts.get(key)  # making one takes longer than many products with it
        if known is not None:
            return known
        indptr = self.X.indptr[rows.start : rows.stop + 1]
        entries = slice(indptr[0], indptr[-1])
        shape = (len(indptr) - 1, self.X.shape[1])
        part = sp.csr_array((self.X.data[entries], self.X.indices[entries], indptr - indptr[0]), shape=shape)
        self._parts[key] = part
        return part

    def keeps_gram(self, n_rows: int) -> bool:
        """Whether ``gram`` of blocks of ``n_rows`` rows is cached: all of them take little memory."""
        return 8 * n_rows * self.n_rows <= _GRAM_BYTES

    def gram(self, rows: slice) -> np.ndarray:
        """Inner products of consecutive rows, cached if ``keeps_gram``; read-only for the caller."""
        gram = self._grams.get((rows.start, rows.stop))
        if gram is None:
            X = self.part(rows)
            gram = X @ X.T if isinstance(X, np.ndarray) else (X @ X.T).toarray()
            if self.keeps_gram(rows.stop - rows.start):
                self._grams[rows.start, rows.stop] = gram
        return gram

    def forward(self, W: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """X W in C order, of some consecutive rows or of all."""
        X = self.X if rows is None else self.part(rows)
        if X.size * W.shape[1] < _WORTH_A_THREAD:
            return np.ascontiguousarray(X @ W)
        out = np.empty((X.shape[0], W.shape[1]))
        products = self if rows is None else RowProducts(X, self.pool)

        def write(part: slice) -> None:
            out[part] = products.part(part) @ W

        list(self.pool.map(write, row_blocks(X.shape[0], max(min(_ROWS, X.shape[0] // 2), 1))))
        return out

    def backward(self, Q: np.ndarray) -> np.ndarray:
        """X^T Q in the memory order of ``arranged``."""
        out = self.zeros(Q.shape[1])
        self.add(slice(0, self.n_rows), Q, out)
        return out

    def add(self, rows: slice, Q: np.ndarray, V: np.ndarray) -> None:
        """V += X_rows^T Q, with V in the memory order of ``arranged``."""
        if not isinstance(self.X, np.ndarray):  # a block of rows reaches few features: no product as large as V
            X = self.X
            add_rows(CSR(X.data, X.indices, X.indptr), rows.start, np.ascontiguousarray(Q), V)
            return
        X = self.part(rows)
        if not (X.size * Q.shape[1] >= _WORTH_A_THREAD and V.flags.f_contiguous):
            V += X.T @ Q
            return

        def write(columns: slice) -> None:
            V.T[columns] += Q[:, columns].T @ X  # contiguous writes, as V is in Fortran order

        n_parts = 2 * -(-Q.shape[1] // (2 * _COLUMNS))
        list(self.pool.map(write, row_blocks(Q.shape[1], -(-Q.shape[1] // n_parts))))
