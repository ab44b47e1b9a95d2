"""Models compared on data sets as papers do it: the same splits for all, everything chosen inside, tests at the end.

`compare` runs the cells (data set, split, model), `Comparison` has the tables, ranks and tests. Models go by name, see
`comargin.training`.

===================  ==========================================================================
`_compare.py`        `compare`: its arguments, the list of cells, what was finished before
`_cells.py`          one cell: a model tuned, fitted and measured on one split
`_results.py`        the results file
`_comparison.py`     `Comparison`
`_statistics.py`     ranks and tests of models over data sets
`_tables.py`         tables as text, Markdown and LaTeX
`diagram.py`         the critical-difference diagram
===================  ==========================================================================
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
