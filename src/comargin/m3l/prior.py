r"""Label correlation priors R, split into parts that can be solved apart.

R (L x L, symmetric, positive semi-definite) couples labels only inside the connected components of its non-zeros. A
component has one of these forms, each with its own cost in the solvers:

======== =========================================== =====================================
form     stored                                      product with a row vector of labels
======== =========================================== =====================================
diagonal r (all labels without a partner, together)  L
dense    R                                           L^2
sparse   R as CSR                                    nnz(R)
factor   F (L x k) with R = F F^T, k well below L    2 k L
======== =========================================== =====================================
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ..core.rows import CSR
from ..graphs import LabelGraph

_ROUNDING = 1e-10  # negative eigenvalues allowed in R, relative to its largest entry
_RANK = 1e-12  # eigenvalues below this fraction of the largest one do not count for the rank


@dataclass(frozen=True)
class PriorPart:
    """R on one set of m labels."""

    labels: np.ndarray  # int (m,)
    form: str  # "diagonal", "dense", "sparse" or "factor"
    matrix: np.ndarray | sp.csr_array  # r (m,), R (m, m) dense or CSR, or F (m, k)

    @cached_property
    def diagonal(self) -> np.ndarray:
        if self.form == "diagonal":
            return np.asarray(self.matrix)
        if self.form == "factor":
            return np.vecdot(self.matrix, self.matrix)
        return np.array(self.matrix.diagonal())

    def apply(self, V: np.ndarray) -> np.ndarray:
        """V R for V of shape (any, m)."""
        if self.form == "diagonal":
            return V * self.matrix
        if self.form == "factor":
            return (V @ self.matrix) @ self.matrix.T
        return np.asarray(V @ self.matrix)

    def to_array(self) -> np.ndarray:
        """R as a dense array."""
        return self.apply(np.eye(len(self.labels)))

    @cached_property
    def factor(self) -> np.ndarray:
        """F of shape (m, rank) with R = F F^T."""
        return np.asarray(self.matrix) if self.form == "factor" else _factor_of(*np.linalg.eigh(self.to_array()))


def identity_prior(n_labels: int) -> tuple[PriorPart, ...]:
    """R = I, as one diagonal part."""
    return (PriorPart(np.arange(n_labels), "diagonal", np.ones(n_labels)),)


def split_prior(R: Any, n_labels: int) -> tuple[PriorPart, ...]:
    """Check R and split it: first the labels without a partner, if there are any, then the components.

    R, an array or a `LabelGraph`, must be symmetric and positive semi-definite; it may be singular.
    """
    try:
        sparse = R.weights if isinstance(R, LabelGraph) else LabelGraph(R).weights
    except ValueError as error:
        raise ValueError(str(error).replace("weights", "label_correlation", 1)) from error
    if sparse.shape != (n_labels, n_labels):
        raise ValueError(
            f"label_correlation must have shape ({n_labels}, {n_labels}), one row per label; got {sparse.shape}"
        )
    largest = float(np.max(np.abs(sparse.data), initial=0.0))
    _, component = connected_components(sparse, directed=False)
    sizes = np.bincount(component)
    alone = np.flatnonzero(sizes[component] == 1)
    parts = []
    if alone.size:
        r = sparse.diagonal()[alone]
        _check_eigenvalue(float(r.min()), largest)
        parts.append(PriorPart(alone, "diagonal", r))
    for number in np.flatnonzero(sizes > 1):
        labels = np.flatnonzero(component == number)
        parts.append(_component(labels, sp.csr_array(sparse[labels][:, labels]), largest))
    return tuple(parts)


def prior_for_loops(part: PriorPart) -> np.ndarray | CSR:
    """The stored matrix of a part as the compiled loops take it: C-contiguous, or CSR with int32 indices."""
    R = part.matrix
    if isinstance(R, np.ndarray):
        return np.ascontiguousarray(R)
    return CSR(R.data, R.indices.astype(np.int32), R.indptr.astype(np.int32))


def whole_prior(prior: tuple[PriorPart, ...]) -> PriorPart:
    """R of all labels as one part, dense or sparse."""
    n_labels = sum(len(part.labels) for part in prior)
    R = sp.csr_array((n_labels, n_labels))
    for part in prior:
        if part.form == "diagonal":
            block = sp.diags_array(part.matrix)
        else:
            block = part.matrix if part.form == "sparse" else part.to_array()
        block = sp.coo_array(block)
        R = R + sp.csr_array((block.data, (part.labels[block.row], part.labels[block.col])), shape=R.shape)
    R = sp.csr_array(R)
    R.eliminate_zeros()
    alone = all(part.form == "diagonal" for part in prior)
    return _sparse_or_dense(np.arange(n_labels), R, sparse=alone or _is_sparse(R))


def _component(labels: np.ndarray, R: sp.csr_array, largest: float) -> PriorPart:
    """Check one component and choose its form."""
    sparse = _is_sparse(R)
    if not _surely_definite(R, sparse):
        values, vectors = np.linalg.eigh(R.toarray())
        _check_eigenvalue(float(values[0]), largest)
        F = _factor_of(values, vectors)
        if 2 * F.shape[1] <= len(labels):
            return PriorPart(labels, "factor", F)
    return _sparse_or_dense(labels, R, sparse)


def _is_sparse(R: sp.csr_array) -> bool:
    """Whether products with R as CSR are faster: a gathered entry costs several times a contiguous one."""
    return 8 * R.nnz <= R.shape[0] ** 2


def _sparse_or_dense(labels: np.ndarray, R: sp.csr_array, sparse: bool) -> PriorPart:
    return PriorPart(labels, "sparse", R) if sparse else PriorPart(labels, "dense", R.toarray())


def _surely_definite(R: sp.csr_array, sparse: bool) -> bool:
    """Whether all eigenvalues are far above rounding, by a factorisation instead of them; False proves nothing.

    Without pivoting for size R - shift I = P^T L D L^T P has as many negative entries in D as negative eigenvalues
    (Sylvester's law of inertia).
    """
    shift = _ROUNDING * float(abs(R).sum(axis=1).max())
    shifted = sp.csc_array(R - shift * sp.eye_array(R.shape[0]))
    try:
        if not sparse:
            np.linalg.cholesky(shifted.toarray())
            return True
        factor = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except (np.linalg.LinAlgError, RuntimeError):  # not definite; exactly singular
        return False
    return bool(np.array_equal(factor.perm_r, factor.perm_c) and factor.U.diagonal().min() > 0.0)


def _factor_of(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """F with R = F F^T from the eigenvalues (ascending) and eigenvectors of R, as many columns as its rank."""
    keep = values > _RANK * values[-1]
    return np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))


def _check_eigenvalue(smallest: float, largest: float) -> None:
    if smallest < -_ROUNDING * max(largest, np.finfo(np.float64).tiny):
        raise ValueError(f"label_correlation must be positive semi-definite; its smallest eigenvalue is {smallest:.3g}")
