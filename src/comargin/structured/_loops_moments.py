# mypy: ignore-errors
"""Expectations of label products under the masses of labelings: what the scores of cliques are made of."""

from ..core.compiled import compiled


@compiled
def label_products(known, subset, out):
    """Write sum_p a_ip prod_S y_ip over the labelings p of every row into ``out`` (n,); subset int64: the labels S."""
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
