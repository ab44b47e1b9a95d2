"""Products with the rows of X for all labels of an SVM+ step, Gram matrices of chosen rows and of label sets.

Labels are contiguous in memory, so that every non-zero of a row meets one run of them.
"""

from __future__ import annotations

from ._jit import kernel
from ._rows import row_gemv, row_ger


@kernel
def prml_scores(X, Z, out):
    """Write X Z into ``out``.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    Z : ndarray (d, m)
    out : ndarray (n, m), written
    """
    for i in range(out.shape[0]):
        row_gemv(X, i, Z, out[i])


@kernel
def prml_average(X, signed, V):
    """Add X^T ``signed`` to V; rows of zeros cost nothing.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    signed : ndarray (n, m), dual variables with the signs of their labels
    V : ndarray (d, m)
    """
    for i in range(signed.shape[0]):
        any_there = False
        for label in range(signed.shape[1]):
            if signed[i, label] != 0.0:
                any_there = True
                break
        if any_there:
            row_ger(X, i, signed[i], V)


@kernel
def prml_gram(X, columns, first, last, gram):
    """Write the products of rows ``first`` to ``last`` of X with all rows up to themselves into ``gram``.

    Row by row, over the columns of its non-zeros: pairs of rows without a common feature cost nothing.

    Parameters
    ----------
    X : CSR (p, d)
    columns : CSR (d, p), X^T
    first, last : int; parts that do not overlap can be done at the same time
    gram : ndarray (at least p, at least p), rows and columns written
    """
    for a in range(first, last):
        row = gram[a]
        row[: a + 1] = 0.0
        for k in range(X.indptr[a], X.indptr[a + 1]):
            value, j = X.data[k], X.indices[k]
            for m in range(columns.indptr[j], columns.indptr[j + 1]):
                b = columns.indices[m]
                if b > a:
                    break
                row[b] += value * columns.data[m]
        for b in range(a):
            gram[b, a] = row[b]


@kernel
def prml_signs_gram(indptr, indices, weight, gram, sums):
    """Write sum_g weight_g s_g s_g^T and sum_g weight_g s_g, s_g = 2 on_g - 1 the signs of set g; few labels are on.

    Parameters
    ----------
    indptr, indices : int ndarrays, CSR of the labels that are on in each set
    weight : ndarray (G,)
    gram : ndarray (L, L), written
    sums : ndarray (L,), written
    """
    n_labels = gram.shape[0]
    gram[:] = 0.0
    total = 0.0
    for g in range(weight.shape[0]):
        w = weight[g]
        if w == 0.0:
            continue
        total += w
        for a in range(indptr[g], indptr[g + 1]):
            for b in range(indptr[g], indptr[g + 1]):
                gram[indices[a], indices[b]] += w
    for a in range(n_labels):
        sums[a] = 2.0 * gram[a, a] - total
    for a in range(n_labels):
        for b in range(n_labels):
            gram[a, b] = 4.0 * gram[a, b] - (sums[a] + sums[b]) - total


@kernel
def prml_signed_gram(gram, places, signs, scale, ridge, out):
    """Write the lower triangle of ``scale`` (s s^T) o ``gram`` + ``ridge`` I at the given places.

    Parameters
    ----------
    gram : ndarray (m, m), symmetric
    places : int ndarray (p,)
    signs : ndarray (p,)
    scale, ridge : float
    out : ndarray (p, p), what is above its diagonal is left alone
    """
    for a in range(places.shape[0]):
        row, sign = gram[places[a]], scale * signs[a]
        for b in range(a + 1):
            out[a, b] = sign * signs[b] * row[places[b]]
        out[a, a] += ridge
