"""What every learner is built on.

===================  ==============================================================================================
compiled             the one decorator of compiled loops
rows                 products of one row: the only compiled loops that tell dense from CSR
random_numbers       a random state that compiled loops carry along
loop, result         `run_loop`, `Control`, `Status`, `Checkpoint`, `Result`: iterate until the certified gap is met
executor, memory     `run(tasks, usual)`: independent tasks anywhere; `Memory`: their states for a resumed run
path, progress       fits along the values of a parameter, each started from the last; how far a list of fits is
estimator            `MultilabelClassifier`: the contract of every learner
parameters           the ``__init__`` of estimators, from the parameters that their classes declare
explanation          `explain`: why a label has its score
docstrings           what learners share is described once, in the docstrings of their bases
wrapper              base of classifiers that fit another estimator
imputer              `MeanImputer`: missing numbers become the mean of their column
validation           X and y checked and converted to one form; indicator: the check of a {0, 1} matrix and of weights
checks               whole and other numbers among the arguments
threads              worker threads over loops that release the GIL
gram                 the Gram matrix of a kernel, and its rows within a memory limit; kernel_functions: k(x, x')
row_blocks, row_products   products with all rows, block by block
conjugate_gradients, interior_point, cholesky   linear systems; the step length of an interior-point method
threshold_rule       `ThresholdRule`: base of the rules that turn scores into label sets
files, wording       files written whole or not at all; words that messages share
===================  ==============================================================================================

The names below are loaded on first use. They are public for learners of your own: see ``docs/own_learner.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimator import Interval, LinearMultilabelClassifier, MultilabelClassifier, StrOptions
    from .explanation import Contribution, Explanation, explain
    from .loop import Control, run_loop
    from .result import Checkpoint, FitState, Result, Status

_HOMES = {
    "estimator": ("Interval", "LinearMultilabelClassifier", "MultilabelClassifier", "StrOptions"),
    "explanation": ("Contribution", "Explanation", "explain"),
    "loop": ("Control", "run_loop"),
    "result": ("Checkpoint", "FitState", "Result", "Status"),
}

__all__ = [
    "Checkpoint",
    "Contribution",
    "Control",
    "Explanation",
    "FitState",
    "Interval",
    "LinearMultilabelClassifier",
    "MultilabelClassifier",
    "Result",
    "Status",
    "StrOptions",
    "explain",
    "run_loop",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
