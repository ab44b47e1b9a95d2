r"""Kernels for structured SVMs: a pivoted Cholesky factor of the kernel matrix takes the place of the features.

F F^T is the kernel matrix K projected on the span of some training rows, the pivots P: F = K_{:P} L^{-T} with L L^T =
K_PP. Rows of F are features, so that passes, Newton steps and scores of cliques need no kernel. Blocks of rows of K
are computed on demand and not kept; memory is that of F.

What the projection costs. Let E = K - F F^T, which is positive semi-definite, and e its diagonal. Weights in the span
of the pivots have the same scores of the training rows and the same norm in either space: the primal is that of K. The
dual of K at the same masses is smaller than that of F F^T by 1/2 sum_col scale_col q_col^T E q_col, where q_i are the
differences of joint features of row i (``problem.py``). By Cauchy's inequality for E, |E_ij| <= sqrt(e_i e_j), this is
at most

    residual = 1/2 (sum_i sqrt(e_i) |q_i|)^2,     |q_i|^2 = sum_col scale_col q_i,col^2,

and so the optimum with K lies between the dual minus this and the primal. It is small where the masses are; for any
masses |q_i|^2 <= 2 m_i^2 (K + C) / lambda with K labels and C cliques, which gives

    residual <= (K + C) / lambda  sum_i m_i e_i  =  (K + C) trace(E) / (lambda n)    without weights of the rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ..core.gram import Gram
from ..core.kernel_functions import KernelFunction
from ..core.row_blocks import row_blocks
from ..core.validation import Matrix
from ._loops import structured_coefficients
from .labelings import StructuredDual, columns_of, layout_of
from .problem import StructuredProblem

_ROWS = 1024  # rows whose coefficients are in memory together


@dataclass(frozen=True)
class KernelPolicy:
    residual: float = 1e-9  # trace of K - F F^T, relative to that of K: below the tolerance at alpha = 1e-4, too
    block: int = 256  # pivots chosen together: 64 to 512 differ by the overhead of a call
    smallest: float = 0.01  # residual of the worst pivot of a block, relative to the best: others wait for a later one


POLICY = KernelPolicy()


@dataclass(frozen=True)
class PivotedFactor:
    """F with K = F F^T + E, E positive semi-definite."""

    F: np.ndarray  # (n_samples, rank), C order
    pivots: np.ndarray  # int (rank,), rows of which F is a triangle
    residual: np.ndarray  # diagonal of E (n_samples,)


def pivoted_factor(gram: Gram, most: int, *, constant: bool = False) -> PivotedFactor:
    """Pivoted Cholesky of a kernel matrix, until the policy's residual or a rank of ``most``.

    With ``constant`` F has a last column of ones, which belongs to no pivot. Pivots are chosen and factored in blocks:
    the rows of the largest residuals, in the order of LAPACK's pivoted factor of their own block.
    """
    diagonal = np.maximum(gram.diagonal, 0.0)
    n_samples, enough = len(diagonal), POLICY.residual * float(diagonal.sum())
    most = min(most, n_samples)
    rows, pivots, rank = np.empty((most + constant, n_samples)), np.empty(most, dtype=np.intp), 0
    while rank < most and diagonal.sum() > enough:
        count = min(POLICY.block, most - rank)
        chosen = np.sort(np.argpartition(-diagonal, count - 1)[:count])
        block = gram.block(chosen) - rows[:rank, chosen].T @ rows[:rank]
        least = POLICY.smallest * float(np.diag(block[:, chosen]).max())
        triangle, order, n_kept, _ = dpstrf(block[:, chosen], tol=least, lower=1)
        if n_kept == 0:
            break
        order = order[:n_kept] - 1
        new = solve_triangular(triangle[:n_kept, :n_kept], block[order], lower=True)
        pivots[rank : rank + n_kept] = chosen[order]
        rows[rank : rank + n_kept] = new
        rank += n_kept
        diagonal = np.maximum(diagonal - np.einsum("ij,ij->j", new, new), 0.0)
        diagonal[pivots[:rank]] = 0.0
    if constant:
        rows[rank] = 1.0
    return PivotedFactor(np.ascontiguousarray(rows[: rank + constant].T), pivots[:rank], diagonal)


@dataclass(frozen=True)
class KernelFeatures:
    """The features of some training rows, and how weights of them become coefficients of kernel values."""

    function: KernelFunction
    support: np.ndarray  # int (rank,), in increasing order
    support_vectors: Matrix | None  # None for a precomputed kernel
    factor: PivotedFactor

    @classmethod
    def of(cls, function: KernelFunction, X: Matrix, megabytes: float, *, constant: bool) -> "KernelFeatures":
        """The rank is limited so that the factor and a copy take the given memory."""
        most = max(int(megabytes * 2**20 / (16 * X.shape[0])), 1)
        factor = pivoted_factor(function.gram(X, constant=0.0), most, constant=constant)
        support = np.sort(factor.pivots)
        return cls(function, support, None if function.kernel == "precomputed" else X[support], factor)

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        """Coefficients (n_columns, rank) of the kernel values with the support rows: L^{-T} times the weights of F."""
        pivots = self.factor.pivots
        triangle = self.factor.F[pivots, : len(pivots)]
        in_order = solve_triangular(triangle, weights.T, lower=True, trans="T")
        return np.ascontiguousarray(in_order[np.argsort(pivots)].T)

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of a learner that belong to no column."""
        return {
            "support_": self.support,
            "support_vectors_": self.support_vectors,
            "_kernel_function": self.function,
        }


def residual_bound(problem: StructuredProblem, dual: StructuredDual, residual: np.ndarray) -> float:
    """How much less the dual of K is than that of F F^T at most, at the masses of ``dual``; ``residual`` is e."""
    if not residual.any():
        return 0.0
    total = 0.0
    for rows in row_blocks(len(residual), _ROWS):
        numbers, squares = np.arange(rows.start, rows.stop), np.zeros(rows.stop - rows.start)
        for labels, known in zip(dual.parts, dual.known, strict=True):
            local = dual.cliques.within(labels)
            layout, moments = layout_of(local), np.empty((len(numbers), len(local.subsets)))
            Y, cost = np.ascontiguousarray(problem.Y[:, labels]), np.ascontiguousarray(problem.cost[:, labels])
            structured_coefficients(numbers, Y, cost, layout, known, moments)
            columns = columns_of(moments, layout) ** 2
            nodes = columns[:, : len(labels)].sum(axis=1)  # of scale 2 / lambda, all other columns 1 / lambda at most
            squares += (nodes + columns.sum(axis=1)) / problem.alpha
        total += float(np.sqrt(squares) @ np.sqrt(residual[rows]))
    return 0.5 * total**2
