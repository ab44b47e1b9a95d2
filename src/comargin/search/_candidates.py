"""What `AutoClassifier` tries: models of the registry that suit the data, each with the values of its grid."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..core.indicator import split_unknown
from ..core.validation import has_scores

Place = tuple[int, ...]  # of a value in each parameter of a grid


@dataclass(frozen=True)
class Limits:
    """Sizes up to which a model is tried, chosen on emotions, flags, enron, tmc2007-500, corel5k and cal500."""

    kernel_rows: int = 10_000  # K has 4 n^2 bytes: 400 MB
    forest_cells: int = 200_000  # rows times labels: leaves of 200 trees have 4 kB a cell
    neighbour_rows: int = 50_000  # a prediction compares with all of them
    prior_labels: int = 1000  # a dense R has 8 L^2 bytes


LIMITS = Limits()
# On the six sets "ovr", "rank-cvm", "ssvm-tree" and "cgm" gained nothing in a blend with these, nor did gradient
# boosting on emotions and flags; "knn" got 0.003 more of the rows of tmc2007-500 right.
_NAMES = ("m3l", "knn", "forest", "extra-trees", "m3l-rbf")
# The hinge of M3L's kernel form ranks worse than the logistic loss on five of the six sets.
_SETTINGS: dict[str, dict[str, Any]] = {"m3l-rbf": {"loss": "logistic"}}
# On sparse features their other parameters gained nothing on enron and tmc2007-500, for half of the time of the search.
_FIXED_ON_SPARSE = ("forest", "extra-trees")


@dataclass(frozen=True)
class Candidate:
    """A model with the values of its parameters in order; an estimator for features that are ready."""

    name: str
    estimator: Any
    grid: tuple[tuple[str, tuple[Any, ...]], ...]

    def start(self) -> Place:
        """The middle of every parameter's values."""
        return tuple((len(values) - 1) // 2 for _, values in self.grid)

    def parameters(self, place: Place) -> dict[str, Any]:
        """The values of a place, by name."""
        return {name: values[k] for (name, values), k in zip(self.grid, place, strict=True)}

    def estimator_at(self, place: Place) -> Any:
        """The estimator with these values."""
        return clone(self.estimator).set_params(**self.parameters(place))

    def neighbours(self, place: Place) -> list[Place]:
        """Places one step away, along one parameter after the other."""
        steps = [(axis, k + step) for axis, k in enumerate(place) for step in (1, -1)]
        return [
            (*place[:axis], k, *place[axis + 1 :]) for axis, k in steps if 0 <= k < len(self.grid[axis][1])
        ]  # fmt: skip


def suited(n_samples: int, n_labels: int, is_sparse: bool) -> tuple[str, ...]:
    """Names of the models that are tried by default.

    On sparse features extremely randomised trees gain 0.013 of micro-F1 (enron); a forest beside them gains 0.002 more,
    and doubles the time.
    """
    trees = n_labels > 1 and n_samples * n_labels <= LIMITS.forest_cells
    fits = {
        "knn": n_labels > 1 and n_samples <= LIMITS.neighbour_rows,
        "forest": trees and not is_sparse,
        "extra-trees": trees,
        "m3l-rbf": n_samples <= LIMITS.kernel_rows,
    }  # scikit-learn's take a single label in another form
    return tuple(name for name in _NAMES if fits.get(name, True))


def candidates_for(wanted: Any, X: Any, Y: sp.csr_array, seed: int, weighted: bool) -> list[Candidate]:
    """The candidates for features that are ready; ``wanted`` as `AutoClassifier` takes it, None chooses by size."""
    from ..models import checked_models, for_unknown_labels  # its registry has AutoClassifier

    n_labels = Y.shape[1]

    recipes = checked_models(suited(X.shape[0], n_labels, sp.issparse(X)) if wanted is None else wanted)
    for recipe in recipes:
        if not has_scores(recipe.estimator):
            raise ValueError(f"candidates: {recipe.name!r} has neither decision_function nor predict_proba.")
    taking = [recipe for recipe in recipes if not weighted or has_fit_parameter(recipe.estimator, "sample_weight")]
    if not taking:
        raise ValueError("sample_weight must be None: no candidate takes it.")
    if split_unknown(Y, "y")[1] is not None:
        taking = list(map(for_unknown_labels, taking))
    return [_candidate(recipe, X, n_labels, seed) for recipe in taking]


def _candidate(recipe: Any, X: Any, n_labels: int, seed: int) -> Candidate:
    estimator = clone(recipe.estimator).set_params(**_SETTINGS.get(recipe.name, {}))
    params = estimator.get_params(deep=True)
    unseeded = [name for name, value in params.items() if name.endswith("random_state") and value is None]
    estimator.set_params(**dict.fromkeys(unseeded, seed))
    grid = [(name, tuple(values.of(X) if hasattr(values, "of") else values)) for name, values in recipe.grid]
    if recipe.name in _FIXED_ON_SPARSE and sp.issparse(X):
        grid = [(name, values[(len(values) - 1) // 2 :][:1]) for name, values in grid]
    if n_labels > LIMITS.prior_labels:
        grid = [(name, values) for name, values in grid if name != "label_correlation"]
    return Candidate(recipe.name, estimator, tuple(grid))


def made_ready(X: Any, weight: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Fitted transformers, and the features that they make of X."""
    from ..models import preparation

    is_text = isinstance(X, list) and len(X) > 0 and isinstance(X[0], str)
    rows = X if is_text else X.tocsr() if sp.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    steps = preparation(rows)
    for _, step in steps:
        params = {"sample_weight": weight} if weight is not None and has_fit_parameter(step, "sample_weight") else {}
        rows = step.fit(rows, **params).transform(rows)
    return steps, rows
