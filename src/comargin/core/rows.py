# mypy: ignore-errors
"""Products with one row of X, written once for dense and CSR storage.

Only this file distinguishes the two. The plain functions are the specification: they run under ``NUMBA_DISABLE_JIT=1``
and in tests. ``@overload`` selects the compiled body by type, so a loop that calls ``row_gemv(X, i, V, out)`` is
compiled for either storage at no cost.

Notation: x_i is row i of X (n_samples x n_features); V is n_features x n_labels, labels contiguous, so that each
non-zero of x_i meets one contiguous run of V.
"""

from typing import NamedTuple

import numpy as np

from .compiled import overload, types

# Never fastmath=True: NaN and infinity must survive. These two allow vector sums and fused multiply-add.
_FAST = {"fastmath": {"reassoc", "contract"}}


class CSR(NamedTuple):
    """Compressed sparse rows: float64 data, int32 column indices (sorted within a row), int32 row pointers."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def _row(X, i):
    """Column indices and values of row i."""
    if isinstance(X, CSR):
        lo, hi = X.indptr[i], X.indptr[i + 1]
        return X.indices[lo:hi], X.data[lo:hi]
    return slice(X.shape[1]), X[i]


def _is_csr(X):
    return isinstance(X, types.NamedTuple) and X.instance_class is CSR


def _precision(V):
    """Type of V: numbers are converted to it first, because products of mixed precision vectorise badly."""
    return np.float32 if V.dtype == types.float32 else np.float64


def row_gemv(X, i, V, out):
    """Write x_i^T V into ``out`` (n_labels,)."""
    idx, val = _row(X, i)
    out[:] = val @ V[idx]


@overload(row_gemv, jit_options=_FAST)
def _row_gemv(X, i, V, out):
    number = _precision(V)
    if _is_csr(X):

        def impl(X, i, V, out):
            n_labels = V.shape[1]
            for label in range(n_labels):
                out[label] = number(0.0)
            k, end = X.indptr[i], X.indptr[i + 1]
            while k + 3 < end:  # four at a time: one load and store of out for all four
                a, b, c, d = number(X.data[k]), number(X.data[k + 1]), number(X.data[k + 2]), number(X.data[k + 3])
                p, q, r, s = X.indices[k], X.indices[k + 1], X.indices[k + 2], X.indices[k + 3]
                for label in range(n_labels):
                    out[label] += a * V[p, label] + b * V[q, label] + c * V[r, label] + d * V[s, label]
                k += 4
            while k < end:
                a, p = number(X.data[k]), X.indices[k]
                for label in range(n_labels):
                    out[label] += a * V[p, label]
                k += 1
    else:

        def impl(X, i, V, out):
            n_labels = V.shape[1]
            for label in range(n_labels):
                out[label] = number(0.0)
            whole = X.shape[1] // 4 * 4
            for j in range(0, whole, 4):
                a, b, c, d = number(X[i, j]), number(X[i, j + 1]), number(X[i, j + 2]), number(X[i, j + 3])
                for label in range(n_labels):
                    out[label] += a * V[j, label] + b * V[j + 1, label] + c * V[j + 2, label] + d * V[j + 3, label]
            for j in range(whole, X.shape[1]):
                a = number(X[i, j])
                for label in range(n_labels):
                    out[label] += a * V[j, label]

    return impl


def row_ger(X, i, delta, V):
    """Rank-one update V += x_i delta^T."""
    idx, val = _row(X, i)
    V[idx] += np.outer(val, delta)


@overload(row_ger, jit_options=_FAST)
def _row_ger(X, i, delta, V):
    csr, number = _is_csr(X), _precision(V)

    def impl(X, i, delta, V):
        first, last = (X.indptr[i], X.indptr[i + 1]) if csr else (0, X.shape[1])
        for k in range(first, last):
            j, x = (X.indices[k], number(X.data[k])) if csr else (k, number(X[i, k]))
            for label in range(V.shape[1]):
                V[j, label] += x * delta[label]

    return impl


# ``csr`` is a constant of a compiled body, so that its branches cost nothing.
# The loops below use unsigned positions where each step reads one number: without the test for negative indices,
# scalar loads are up to three times as fast as gathered vectors.


def row_dot(X, i, w):
    """Return x_i^T w for w of shape (n_features,)."""
    idx, val = _row(X, i)
    return val @ w[idx]


@overload(row_dot, jit_options=_FAST)
def _row_dot(X, i, w):
    csr = _is_csr(X)

    def impl(X, i, w):
        total = 0.0
        first, last = (np.uint32(X.indptr[i]), np.uint32(X.indptr[i + 1])) if csr else (0, X.shape[1])
        for k in range(first, last):
            j, x = (np.uint32(X.indices[k]), X.data[k]) if csr else (k, X[i, k])
            total += x * w[j]
        return total

    return impl


def row_dot_label(X, i, V, label):
    """Return x_i^T V[:, label]."""
    idx, val = _row(X, i)
    return val @ V[idx, label]


@overload(row_dot_label, jit_options=_FAST)
def _row_dot_label(X, i, V, label):
    csr = _is_csr(X)

    def impl(X, i, V, label):
        total, column = 0.0, np.uint32(label) if csr else label
        first, last = (np.uint32(X.indptr[i]), np.uint32(X.indptr[i + 1])) if csr else (0, X.shape[1])
        for k in range(first, last):
            j, x = (np.uint32(X.indices[k]), X.data[k]) if csr else (k, X[i, k])
            total += x * V[j, column]
        return total

    return impl


def row_axpy_label(step, X, i, V, label):
    """Update one label: V[:, label] += step * x_i."""
    idx, val = _row(X, i)
    V[idx, label] += step * val


@overload(row_axpy_label, jit_options=_FAST)
def _row_axpy_label(step, X, i, V, label):
    csr = _is_csr(X)

    def impl(step, X, i, V, label):
        column = np.uint32(label) if csr else label
        first, last = (np.uint32(X.indptr[i]), np.uint32(X.indptr[i + 1])) if csr else (0, X.shape[1])
        for k in range(first, last):
            j, x = (np.uint32(X.indices[k]), X.data[k]) if csr else (k, X[i, k])
            V[j, column] += step * x

    return impl


def row_axpy(step, X, i, out):
    """Add step * x_i to ``out`` (n_features,)."""
    idx, val = _row(X, i)
    out[idx] += step * val


@overload(row_axpy, jit_options=_FAST)
def _row_axpy(step, X, i, out):
    csr, number = _is_csr(X), _precision(out)

    def impl(step, X, i, out):
        factor = number(step)
        first, last = (np.uint32(X.indptr[i]), np.uint32(X.indptr[i + 1])) if csr else (0, X.shape[1])
        for k in range(first, last):
            j, x = (np.uint32(X.indices[k]), X.data[k]) if csr else (k, X[i, k])
            out[j] += factor * number(x)

    return impl


def row_collect(step, X, i, total, marked, features, n_features):
    """Add step * x_i to ``total`` and append its new features to ``features``; returns how many are listed now."""
    idx, val = _row(X, i)
    total[idx] += step * val
    for j in np.arange(len(total))[idx]:
        if not marked[j]:
            marked[j] = True
            features[n_features] = j
            n_features += 1
    return n_features


@overload(row_collect, jit_options=_FAST)
def _row_collect(step, X, i, total, marked, features, n_features):
    if _is_csr(X):

        def impl(step, X, i, total, marked, features, n_features):
            for k in range(X.indptr[i], X.indptr[i + 1]):
                j = X.indices[k]
                total[j] += step * X.data[k]
                if not marked[j]:
                    marked[j] = True
                    features[n_features] = j
                    n_features += 1
            return n_features
    else:

        def impl(step, X, i, total, marked, features, n_features):
            for j in range(X.shape[1]):
                total[j] += step * X[i, j]
            if n_features == 0:
                for j in range(X.shape[1]):
                    marked[j] = True
                    features[j] = j
            return X.shape[1]

    return impl


def row_spread(R, label, total, features, n_features, Z):
    """Add 2 R_kl total_j to Z[j, k] for every k but ``label`` and every listed j."""
    partners, r = _row(R, label)
    weights = np.zeros(Z.shape[1])
    weights[partners] = 2.0 * r
    weights[label] = 0.0
    j = features[:n_features]
    Z[j] += np.outer(total[j], weights)


@overload(row_spread, jit_options=_FAST)
def _row_spread(R, label, total, features, n_features, Z):
    if _is_csr(R):  # Z[:, k] is contiguous

        def impl(R, label, total, features, n_features, Z):
            for p in range(R.indptr[label], R.indptr[label + 1]):
                k = R.indices[p]
                if k == label:
                    continue
                weight = 2.0 * R.data[p]
                if n_features == Z.shape[0]:
                    for j in range(Z.shape[0]):
                        Z[j, k] += weight * total[j]
                else:
                    for f in range(n_features):
                        j = features[f]
                        Z[j, k] += weight * total[j]
    else:  # Z[j] is contiguous

        def impl(R, label, total, features, n_features, Z):
            n_labels = Z.shape[1]
            weights = np.empty(n_labels)
            for k in range(n_labels):
                weights[k] = 2.0 * R[label, k]
            weights[label] = 0.0
            for f in range(n_features):
                j = features[f]
                value = total[j]
                for k in range(n_labels):
                    Z[j, k] += value * weights[k]

    return impl
