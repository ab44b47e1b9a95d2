"""Products of the kernel matrix of all rows with coefficients of all labels, K V, for linear and other kernels.

``times`` is exact up to rounding and serves certificates; ``roughly``, with a relative error of perhaps 1e-6, serves
conjugate gradients, which only look for a direction. Blocks of rows are fixed, so that the result does not depend on
the number of threads. ``open`` hands over the threads.

Passes over the rows visit one block after the other: ``start`` sets the coefficients beta, ``scores`` are K beta of a
block, ``gram`` is K of a block, and ``add`` changes beta by ``delta`` in a block.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import scipy.sparse as sp

from ..core.gram import Gram
from ..core.row_blocks import row_blocks, squared_lengths
from ..core.row_products import RowProducts

# Rows of a block: enough for matrix products to be efficient, few enough for a block to be visited row by row.
BLOCK_ROWS = 256


class LinearProducts:
    """K = X X^T + constant, through weights: K itself is never formed."""

    def __init__(self, X: np.ndarray | sp.csr_array, constant: float) -> None:
        self.X, self.constant = X, constant
        self.diagonal = squared_lengths(X) + constant
        self.blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        # X^T V in CSR form is several times faster than in CSC.
        self._X_T = None if isinstance(X, np.ndarray) else sp.csr_array(X.T)

    def open(self, pool: Executor) -> None:
        self.products = RowProducts(self.X, pool)
        self._transposed = None if self._X_T is None else RowProducts(self._X_T, pool)

    def weights(self, V: np.ndarray) -> np.ndarray:
        """X^T V, shape (n_features, n_labels)."""
        return self.products.backward(V) if self._transposed is None else self._transposed.forward(V)

    def times(self, V: np.ndarray) -> np.ndarray:
        return self.products.forward(self.weights(V)) + self.constant * V.sum(axis=0)

    roughly = times

    def start(self, beta: np.ndarray) -> None:
        self._weights, self._bias = self.weights(beta), self.constant * beta.sum(axis=0)

    def scores(self, rows: slice) -> np.ndarray:
        return self.products.forward(self._weights, rows) + self._bias

    def gram(self, rows: slice) -> np.ndarray:
        return self.products.gram(rows) + self.constant

    def add(self, rows: slice, delta: np.ndarray) -> None:
        self.products.add(rows, delta, self._weights)
        self._bias += self.constant * delta.sum(axis=0)


class GramProducts:
    """K by blocks of rows: blocks that fit stay in memory, first in float32, then in float64; others are recomputed."""

    def __init__(self, gram: Gram, megabytes: float) -> None:
        self.source, self.diagonal = gram, gram.diagonal
        n_samples = gram.n_samples
        self.blocks = row_blocks(n_samples, BLOCK_ROWS)
        n_bytes = megabytes * 2**20
        n_rough = int(n_bytes // (4 * n_samples * BLOCK_ROWS))
        n_exact = int((n_bytes - 4 * n_samples**2) // (8 * n_samples * BLOCK_ROWS))
        self._rough: dict[int, np.ndarray | None] = dict.fromkeys(range(min(n_rough, len(self.blocks))))
        self._exact: dict[int, np.ndarray | None] = dict.fromkeys(range(min(n_exact, len(self.blocks))))
        # The unit of the float32 blocks, so that no kernel value is beyond their range.
        self._unit = float(gram.diagonal.max()) or 1.0

    def open(self, pool: Executor) -> None:
        self.pool = pool

    def _block(self, k: int) -> np.ndarray:
        """Rows of block k, stored in the precisions that have room for them."""
        block = self._exact.get(k)
        if block is None:
            block = self.source.block(self.blocks[k])
            if k in self._exact:
                self._exact[k] = block
            if k in self._rough and self._rough[k] is None:
                self._rough[k] = (block / self._unit).astype(np.float32)
        return block

    def times(self, V: np.ndarray) -> np.ndarray:
        return self._by_blocks(lambda k: self._block(k) @ V)

    def roughly(self, V: np.ndarray) -> np.ndarray:
        size = float(np.abs(V).max(initial=0.0)) or 1.0
        single = (V / size).astype(np.float32)
        unit = np.float64(self._unit * size)

        def multiply(k: int) -> np.ndarray:
            block = self._rough.get(k)
            return self._block(k) @ V if block is None else unit * (block @ single)

        return self._by_blocks(multiply)

    def _by_blocks(self, multiply: Callable[[int], np.ndarray]) -> np.ndarray:
        return np.concatenate(list(self.pool.map(multiply, range(len(self.blocks)))))

    def start(self, beta: np.ndarray) -> None:
        self._beta = beta

    def scores(self, rows: slice) -> np.ndarray:
        return self._block(rows.start // BLOCK_ROWS) @ self._beta

    def gram(self, rows: slice) -> np.ndarray:
        return np.ascontiguousarray(self._block(rows.start // BLOCK_ROWS)[:, rows])

    def add(self, rows: slice, delta: np.ndarray) -> None:
        """Nothing to do: ``scores`` reads the caller's beta, which holds the change already."""


KernelProducts = LinearProducts | GramProducts
