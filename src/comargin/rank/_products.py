"""Products of the kernel matrix of all rows with coefficients of all labels, K V, for linear and other kernels.

Two precisions: ``times`` is exact and serves certificates, ``roughly`` may be in float32 and serves the inner products
of conjugate gradients, which only look for a direction. Blocks of rows are fixed, so that the result does not depend on
the number of threads.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from ..core.gram import Gram
from ..core.row_blocks import row_blocks, squared_lengths
from ..core.row_products import RowProducts

# Rows of a block: enough for matrix products to be efficient, few enough for a block to be visited row by row.
BLOCK_ROWS = 256


class KernelProducts(Protocol):
    """What solvers need of the kernel; ``blocks`` are the consecutive rows that are visited together."""

    blocks: list[slice]
    diagonal: np.ndarray

    def open(self, pool: Executor) -> None:
        """Use these threads from now on."""

    def times(self, V: np.ndarray) -> np.ndarray:
        """K V, exact up to rounding."""

    def roughly(self, V: np.ndarray) -> np.ndarray:
        """K V, with a relative error of perhaps 1e-6."""

    def start(self, beta: np.ndarray) -> None:
        """From now on ``scores`` are of these coefficients; changes are told by ``add``."""

    def scores(self, rows: slice) -> np.ndarray:
        """K beta of a block of rows."""

    def gram(self, rows: slice) -> np.ndarray:
        """K of a block of rows."""

    def add(self, rows: slice, delta: np.ndarray) -> None:
        """The coefficients of a block have changed."""


class LinearProducts:
    """K = X X^T + constant, through weights: K itself is never formed."""

    def __init__(self, X: np.ndarray | sp.csr_array, constant: float) -> None:
        self.X, self.constant = X, constant
        self.diagonal = squared_lengths(X) + constant
        self.blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        # X^T V in CSR form is several times faster than in CSC.
        self._X_T = None if isinstance(X, np.ndarray) else sp.csr_array(X.T)

    def open(self, pool: Executor) -> None:
        """Use these threads from now on."""
        self.products = RowProducts(self.X, pool)
        self._transposed = None if self._X_T is None else RowProducts(self._X_T, pool)

    def weights(self, V: np.ndarray) -> np.ndarray:
        """X^T V, shape (n_features, n_labels)."""
        return self.products.backward(V) if self._transposed is None else self._transposed.forward(V)

    def times(self, V: np.ndarray) -> np.ndarray:
        """K V."""
        return self.products.forward(self.weights(V)) + self.constant * V.sum(axis=0)

    roughly = times

    def start(self, beta: np.ndarray) -> None:
        """Scores are of these coefficients."""
        self._weights, self._bias = self.weights(beta), self.constant * beta.sum(axis=0)

    def scores(self, rows: slice) -> np.ndarray:
        """K beta of a block of rows."""
        return self.products.forward(self._weights, rows) + self._bias

    def gram(self, rows: slice) -> np.ndarray:
        """K of a block of rows."""
        return self.products.gram(rows) + self.constant

    def add(self, rows: slice, delta: np.ndarray) -> None:
        """The coefficients of a block have changed."""
        self.products.add(rows, delta, self._weights)
        self._bias += self.constant * delta.sum(axis=0)


class GramProducts:
    """K by blocks of rows; what fits stays in memory, first in float32, then in float64, the rest is computed anew."""

    def __init__(self, gram: Gram, megabytes: float) -> None:
        self.source, self.diagonal = gram, gram.diagonal
        n_samples = gram.n_samples
        self.blocks = row_blocks(n_samples, BLOCK_ROWS)
        n_bytes = megabytes * 2**20
        n_rough = int(n_bytes // (4 * n_samples * BLOCK_ROWS))
        n_exact = int((n_bytes - 4 * n_samples**2) // (8 * n_samples * BLOCK_ROWS))
        self._rough: dict[int, np.ndarray | None] = dict.fromkeys(range(min(n_rough, len(self.blocks))))
        self._exact: dict[int, np.ndarray | None] = dict.fromkeys(range(min(n_exact, len(self.blocks))))
        # Kernel values beyond the range of float32 are kept in units of the largest.
        self._unit = float(gram.diagonal.max()) or 1.0

    def open(self, pool: Executor) -> None:
        """Use these threads from now on."""
        self.pool = pool

    def _block(self, k: int) -> np.ndarray:
        """Rows of block k; kept in whatever precision there is room for."""
        block = self._exact.get(k)
        if block is None:
            block = self.source.block(self.blocks[k])
            if k in self._exact:
                self._exact[k] = block
            if k in self._rough and self._rough[k] is None:
                self._rough[k] = (block / self._unit).astype(np.float32)
        return block

    def times(self, V: np.ndarray) -> np.ndarray:
        """K V."""
        out = np.empty(V.shape)

        def write(k: int) -> None:
            out[self.blocks[k]] = self._block(k) @ V

        list(self.pool.map(write, range(len(self.blocks))))
        return out

    def roughly(self, V: np.ndarray) -> np.ndarray:
        """K V."""
        out = np.empty(V.shape)
        size = float(np.abs(V).max(initial=0.0)) or 1.0
        single = (V / size).astype(np.float32)
        unit = np.float64(self._unit * size)

        def write(k: int) -> None:
            block = self._rough.get(k)
            out[self.blocks[k]] = self._block(k) @ V if block is None else unit * (block @ single)

        list(self.pool.map(write, range(len(self.blocks))))
        return out

    def start(self, beta: np.ndarray) -> None:
        """Scores are of these coefficients."""
        self._beta = beta

    def scores(self, rows: slice) -> np.ndarray:
        """K beta of a block of rows."""
        return self._block(rows.start // BLOCK_ROWS) @ self._beta

    def gram(self, rows: slice) -> np.ndarray:
        """K of a block of rows."""
        return np.ascontiguousarray(self._block(rows.start // BLOCK_ROWS)[:, rows])

    def add(self, rows: slice, delta: np.ndarray) -> None:
        """Nothing to do: the coefficients themselves are looked at."""
