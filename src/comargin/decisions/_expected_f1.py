"""Label sets with the greatest expected F1 of a row, its labels independent."""

import numpy as np

from ..core.row_blocks import row_blocks
from ..core.threshold_rule import BoolArray, FloatArray
from ._loops_f1 import best_sizes

_CELLS_AT_ONCE = 4_000_000  # bounds temporaries


def best_expected_f1(p: FloatArray, empty_value: float) -> tuple[BoolArray, FloatArray]:
    """The best set of every row and its expected F1; ``empty_value`` is the F1 of no tag where no label is true.

    The best set of k labels has the k likeliest, because F1 of a set rises with every hit, so that only k is searched.
    """
    on, values = np.zeros(p.shape, dtype=bool), np.empty(len(p))
    places = np.arange(p.shape[1])
    for rows in row_blocks(len(p), max(_CELLS_AT_ONCE // p.shape[1], 1)):
        order = np.argsort(-p[rows], axis=1, kind="stable")
        sizes = np.empty(len(order), dtype=np.int64)
        best_sizes(np.take_along_axis(p[rows], order, axis=1), sizes, values[rows])
        empty = empty_value * np.exp(np.log1p(-p[rows]).sum(axis=1))
        sizes[empty > values[rows]] = 0
        values[rows] = np.maximum(values[rows], empty)
        np.put_along_axis(on[rows], order, places < sizes[:, None], axis=1)
    return on, values
