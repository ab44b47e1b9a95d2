"""Expectations of label products under the masses of labelings: what the scores of cliques are made of."""

from __future__ import annotations

from ._jit import kernel


@kernel
def label_products(known, subset, out):
    """Write sum_p a_ip prod_S y_ip over the labelings p of every row.

    Parameters
    ----------
    known : Known
    subset : int64 ndarray, the labels S
    out : ndarray (n,), written
    """
    labels, mass, count = known.labels, known.mass, known.count
    for i in range(labels.shape[0]):
        total = 0.0
        for p in range(count[i]):
            on = True
            for label in subset:
                if labels[i, p, label] == 0:
                    on = False
                    break
            if on:
                total += mass[i, p]
        out[i] = total
