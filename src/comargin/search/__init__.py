"""Choosing parameters by cross-validation: `tune`, and paths along C or alpha that start every fit from the last.

=====================  ========================================================================
`tuning.py`            `tune`: one parameter after the other
`path_cv.py`           `PathSearch`, the base of `M3LClassifierCV` and `LSG21ClassifierCV`
`m3l_cv.py`            `M3LClassifierCV`
`lsg21_cv.py`          `LSG21ClassifierCV`
`_cells.py`            the tasks of both: one value, or a path of values, on one fold
`tune_input.py`        the criterion, the grid and the folds, checked
`_tune_result.py`      `TuneResult`, its steps and its table
=====================  ========================================================================
"""

from ._tune_result import TuneResult, TuneStep
from .lsg21_cv import LSG21ClassifierCV
from .m3l_cv import M3LClassifierCV
from .tuning import tune

__all__ = ["LSG21ClassifierCV", "M3LClassifierCV", "TuneResult", "TuneStep", "tune"]
