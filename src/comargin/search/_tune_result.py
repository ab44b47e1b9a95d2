"""The result of `tune`."""

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..core.wording import shortened

_MOST_LISTED = 5  # values of one parameter that a warning lists


@dataclass(frozen=True, eq=False)
class TuneStep:
    """One parameter, searched with the others fixed.

    Attributes
    ----------
    name : str
        The parameter.
    values : tuple
        Values tried, in the order of the grid.
    fold_values : ndarray of shape (n_folds, n_values)
        Criterion of the held-out rows of each fold.
    mean : ndarray of shape (n_values,)
        Mean over the folds; over those alone in which the criterion is finite for all values.
    best_index : int
        The best of ``values``, the first of several equally good ones.
    converged : bool ndarray of shape (n_folds, n_values)
        Which fits met their tolerance, that is did not end with a ``ConvergenceWarning``.
    """

    name: str
    values: tuple[Any, ...]
    fold_values: np.ndarray
    mean: np.ndarray
    best_index: int
    converged: np.ndarray

    @property
    def best_value(self) -> Any:
        """The best value of the parameter."""
        return self.values[self.best_index]

    def unconverged_text(self) -> str:
        """The name of the parameter, and the first few values for which a fit did not converge."""
        texts = [text_of(self.values[k]) for k in np.flatnonzero(~self.converged.all(axis=0))]
        return f"{self.name}: {', '.join(texts[:_MOST_LISTED])}{', ...' if len(texts) > _MOST_LISTED else ''}"


@dataclass(frozen=True, eq=False)
class TuneResult:
    """What `tune` found; ``print`` shows it as a table.

    Attributes
    ----------
    best_params : dict
        The best value of every parameter that was searched; for ``estimator.set_params(**best_params)``.
    best_score : float
        Mean criterion of the held-out rows with ``best_params``: the best of the last step.
    criterion : str
        The measure. All its values are as the measure is: a loss is not negated.
    greater_is_better : bool
        False for losses, such as the default criterion: the best is the smallest.
    steps : tuple of TuneStep
        One for each parameter, in the order of the search.
    best_estimator : estimator or None
        Fitted on all rows with ``best_params``; None with ``refit=False``.
    """

    best_params: dict[str, Any]
    best_score: float
    criterion: str
    greater_is_better: bool
    steps: tuple[TuneStep, ...] = field(repr=False)
    best_estimator: Any = field(repr=False)

    def table(self) -> str:
        """Every value tried, with mean and standard deviation of the criterion over the folds.

        Returns
        -------
        str
            One line for each value; a star marks the best of each parameter.
        """
        direction = "greater" if self.greater_is_better else "smaller"
        lines = [f"{self.criterion} ({direction} is better), {len(self.steps[0].fold_values)} folds"]
        for step in self.steps:
            texts = [text_of(value) for value in step.values]
            width = max(map(len, (step.name, *texts)))
            lines += ["", f"  {step.name:{width}}  {'mean':>9}  {'std':>9}"]
            spread = np.nanstd(np.where(np.isfinite(step.fold_values), step.fold_values, np.nan), axis=0)
            for k, text in enumerate(texts):
                mark = "*" if k == step.best_index else " "
                lines.append(f"{mark} {text:{width}}  {step.mean[k]:9.5f}  {spread[k]:9.5f}")
        best = ", ".join(f"{name}={text_of(value)}" for name, value in self.best_params.items())
        return "\n".join([*lines, "", f"best: {best}, {self.criterion} {self.best_score:.5g}"])

    def __str__(self) -> str:
        return self.table()


def text_of(value: Any) -> str:
    """A value of a parameter, short and on one line."""
    if isinstance(value, Real) and not isinstance(value, bool | Integral):
        return f"{float(value):g}"
    text = " ".join(str(getattr(value, "__name__", value)).split())
    return shortened(text, 40)
