"""Choosing by cross-validation: parameters with `tune`, paths along C or alpha, and the model with `AutoClassifier`.

=====================  ========================================================================
`tuning.py`            `tune`: one parameter after the other
`path_cv.py`           `PathSearch`, the base of `M3LClassifierCV` and `LSG21ClassifierCV`
`m3l_cv.py`            `M3LClassifierCV`
`lsg21_cv.py`          `LSG21ClassifierCV`
`auto.py`              `AutoClassifier`
`_trials.py`           what it tries next, what that is worth, and which models to blend
`_candidates.py`       the models that it tries
`budget.py`            how much it may try
`_fold_tasks.py`       the tasks of both: one value, or a path of values, on one fold
`tune_input.py`        the criterion, the grid and the folds, checked
`_tune_result.py`      `TuneResult`, its steps and its table
=====================  ========================================================================
"""

from ._candidates import suited as suited
from ._trials import Trial
from ._tune_result import TuneResult, TuneStep
from .auto import AutoClassifier
from .lsg21_cv import LSG21ClassifierCV
from .m3l_cv import M3LClassifierCV
from .tuning import tune

__all__ = ["AutoClassifier", "LSG21ClassifierCV", "M3LClassifierCV", "Trial", "TuneResult", "TuneStep", "tune"]
