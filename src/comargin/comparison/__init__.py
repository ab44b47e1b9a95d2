"""Models compared on data sets as papers do it: the same splits for all, everything chosen inside, tests at the end.

`compare` runs the cells (data set, split, model), `Comparison` has the tables, ranks and tests. Models go by name, see
`comargin.training`.
"""

from ._compare import CellDone, compare
from ._comparison import DEFAULT_MEASURES, Comparison
from ._statistics import (
    Blocks,
    CriticalDifference,
    FriedmanTest,
    PairTest,
    critical_difference,
    friedman_test,
    rank_models,
    wilcoxon_tests,
)
from ._tables import MeasureTable

__all__ = [
    "DEFAULT_MEASURES",
    "Blocks",
    "CellDone",
    "Comparison",
    "CriticalDifference",
    "FriedmanTest",
    "MeasureTable",
    "PairTest",
    "compare",
    "critical_difference",
    "friedman_test",
    "rank_models",
    "wilcoxon_tests",
]
