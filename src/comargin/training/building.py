"""From a recipe to an estimator for the data at hand: features made ready, seeds and parameters set and searched."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from ..core.estimator import MultilabelClassifier
from ..core.memory import Memory
from ..core.validation import has_scores, learner_of
from ..core.wording import did_you_mean
from ..decisions import RULES
from ..decisions.workbench import BY_AIM
from ..metrics import scorers
from ..models import LEARNER, ModelRecipe, preparation
from ..search import AutoClassifier, tune
from ..search.tune_input import DEFAULT_CRITERION

DEFAULT_AIM = "micro_f1"
_COARSER = 10.0  # tolerance of a fit of the search, relative to that of the last fit; as in `M3LClassifierCV`
Grid = tuple[tuple[str, Any], ...]  # parameters in the order of the search, each with its values


def check_rule(thresholds: Any) -> None:
    """Raise ValueError unless the argument ``thresholds`` is None, "aim" or the name of a rule."""
    if thresholds is not None and thresholds not in (BY_AIM, *RULES):
        names = ", ".join(map(repr, (BY_AIM, *RULES)))
        raise ValueError(f"thresholds must be None or one of {names}; got {thresholds!r}")


def default_model(*of_one_model: Any) -> str:
    """The model where none is named: the best that is found, or M3L for what only makes sense of one model."""
    return "m3l" if any(of_one_model) else "auto"


def check_criterion(criterion: Any) -> None:
    """Raise unless this is None, a measure of `comargin.metrics.scorers`, or "ranking+hamming"."""
    if not isinstance(criterion, str | None):
        raise ValueError(f"criterion must be the name of a measure, got {criterion!r}")
    try:
        if criterion not in (None, DEFAULT_CRITERION):
            scorers[criterion]
    except KeyError as error:
        raise ValueError(f"criterion: {error.args[0]}") from None


def decided_by(recipe: ModelRecipe, thresholds: str | None) -> str | None:
    """What decides on labels of a model, of what is asked for: "aim", the name of a rule, or None for its own sets."""
    if thresholds != BY_AIM:
        return thresholds if recipe.learn_cuts else None
    return BY_AIM if recipe.takes_aim and has_scores(recipe.estimator) else None


def criterion_of(recipe: ModelRecipe, criterion: str | None, thresholds: str | None) -> str:
    """The criterion for the parameters of a model, checked, or chosen if none is given.

    Scores that will be cut later are judged by how they rank; label sets by themselves.
    """
    check_criterion(criterion)
    if criterion is not None:
        return criterion
    is_cut = recipe.learn_cuts and decided_by(recipe, thresholds) is not None
    return "average_precision" if is_cut else "micro_f1"


def build(recipe: ModelRecipe, X: Any, seed: int) -> Any:
    """The estimator of a recipe, not fitted, in a Pipeline if features are made ready; ``seed`` replaces None."""
    steps = preparation(X) if recipe.prepare else []
    learner = clone(recipe.estimator)
    estimator = Pipeline([*steps, (LEARNER, learner)]) if steps else learner
    unseeded = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    return estimator.set_params(**unseeded)


def with_search(estimator: Any, tune: bool, budget: Any = None) -> Any:
    """The estimator; one that searches by itself as a clone that does so, or not, within this budget."""
    if not isinstance(estimator, AutoClassifier):
        return estimator
    return clone(estimator).set_params(tune=tune, **({} if budget is None else {"budget": budget}))


def prefix_of(estimator: Any) -> str:
    """Prefix of the learner's parameters in the names of ``set_params``."""
    return f"{LEARNER}__" if isinstance(estimator, Pipeline) else ""


def full_name(estimator: Any, name: str, argument: str) -> str:
    """Name of ``get_params`` for a parameter that a user names: an error calls it by its argument.

    The user's name is ``C``, also where it belongs to the classifier inside a OneVsRestClassifier, or a name with its
    step, such as ``tfidf__min_df``.
    """
    prefix, known = prefix_of(estimator), estimator.get_params(deep=True)
    if prefix + name in known:
        return prefix + name
    if name in known:
        return name
    inner = [full for full in known if full.startswith(prefix) and full.endswith(f"__{name}")]
    if len(inner) == 1:
        return inner[0]
    own = sorted(full.removeprefix(prefix) for full in known if full.startswith(prefix))
    steps = sorted(full for full in known if "__" in full and not full.startswith(prefix)) if prefix else []
    names = [one for one in (*own, *steps) if one != "callback"]
    raise ValueError(f"{argument}: there is no parameter {name!r}; {did_you_mean(name, names)}")


def with_named_parameters(estimator: Any, params: Mapping[str, Any], argument: str) -> Any:
    """A clone with other values of parameters, named as in `full_name`; the estimator of each checks its value."""
    changed = clone(estimator)
    for name, value in params.items():
        full = full_name(estimator, name, argument)
        if isinstance(value, list) and isinstance(changed.get_params(deep=True)[full], tuple):
            value = tuple(value)  # as JSON and the command line may write it
        changed.set_params(**{full: value})
        path = full.rpartition("__")[0]
        owner = changed.get_params(deep=True)[path] if path else changed
        if isinstance(owner, BaseEstimator):
            try:
                owner._validate_params()
            except ValueError as error:
                raise ValueError(f"{argument}: {name}: {error}") from error
    return changed


def searched(
    estimator: Any, own_grid: Grid, grid: Mapping[str, Sequence[Any]] | None, fixed: Mapping[str, Any]
) -> Grid:
    """Parameters of the learner to search: the user's grid, or else the recipe's without the fixed ones."""
    prefix = prefix_of(estimator)
    taken = {full_name(estimator, name, "params") for name in fixed}
    if grid is None:
        return tuple((name, values) for name, values in own_grid if prefix + name not in taken)
    chosen = []
    for name, values in grid.items():
        full = full_name(estimator, name, "grid")
        if full in taken:
            raise ValueError(f"grid: {name!r} has a value already, {fixed[name]!r}")
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
            raise ValueError(f"grid: the values of {name!r} must be a list of at least one value, got {values!r}")
        for value in values:
            with_named_parameters(estimator, {name: value}, "grid")
        if not full.startswith(prefix):
            raise ValueError(f"grid: {name!r} is no parameter of the learner; only these are searched")
        chosen.append((full.removeprefix(prefix), tuple(values)))
    return tuple(chosen)


def search(
    estimator: Any,
    grid: Grid,
    X: Any,
    Y: np.ndarray | sp.csr_array,
    *,
    criterion: str,
    folds: Any,
    seed: int,
    verbose: int = 0,
    memory: Memory | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Search the learner's parameters one after the other; returns the best estimator, not fitted, and its values.

    Fits of the search have ten times the tolerance of our learners: choosing needs less than the last fit.
    """
    if not grid:
        return estimator, {}
    prefix = prefix_of(estimator)
    features = X
    if prefix and any(hasattr(values, "of") for _, values in grid):
        features = clone(estimator[:-1]).fit_transform(X)
    tried = [(prefix + name, list(values.of(features) if hasattr(values, "of") else values)) for name, values in grid]
    coarse = clone(estimator)
    learner = learner_of(coarse)
    if isinstance(learner, MultilabelClassifier) and "tol" not in dict(grid):
        learner.set_params(tol=_COARSER * learner.tol)
    best = tune(
        coarse, X, Y, tried, criterion=criterion, cv=folds, random_state=seed, verbose=verbose, refit=False,
        memory=memory,
    ).best_params  # fmt: skip
    return clone(estimator).set_params(**best), {name.removeprefix(prefix): value for name, value in best.items()}
