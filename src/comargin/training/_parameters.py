"""Parameters that a user names: found in the estimator, and checked before hours are spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator, clone

from ..models import nearest
from .building import prefix_of


def full_name(estimator: Any, name: str, argument: str) -> str:
    """The name that ``set_params`` takes.

    Parameters
    ----------
    estimator : estimator
        As `build` returns it.
    name : str
        ``C``, also where it belongs to the classifier inside a OneVsRestClassifier; or a name with its step, such as
        ``tfidf__min_df``.
    argument : str
        What to call it in the error message.

    Returns
    -------
    str
        A name of ``get_params``.
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
    raise ValueError(f"{argument}: there is no parameter {name!r}; {nearest(name, names)}")


def with_parameters(estimator: Any, params: Mapping[str, Any], argument: str) -> Any:
    """A clone with other parameters, each checked by the estimator it belongs to.

    Parameters
    ----------
    estimator : estimator
        As `build` returns it.
    params : mapping
        Values by the names `full_name` takes.
    argument : str
        What to call them in an error message.

    Returns
    -------
    estimator
        A new one.
    """
    changed = clone(estimator)
    for name, value in params.items():
        full = full_name(estimator, name, argument)
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
    estimator: Any,
    own_grid: tuple[tuple[str, Any], ...],
    grid: Mapping[str, Sequence[Any]] | None,
    fixed: Mapping[str, Any],
) -> tuple[tuple[str, Any], ...]:
    """What is to be searched: the grid of the recipe, or one that the user gives, without what is fixed.

    Parameters
    ----------
    estimator : estimator
        As `build` returns it.
    own_grid : tuple of (str, values)
        The recipe's.
    grid : mapping or None
        The user's, which replaces it.
    fixed : mapping
        Parameters that have a value.

    Returns
    -------
    tuple of (str, values)
        By the names ``set_params`` of the learner takes.
    """
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
            with_parameters(estimator, {name: value}, "grid")
        if not full.startswith(prefix):
            raise ValueError(f"grid: {name!r} is no parameter of the learner; only these are searched")
        chosen.append((full.removeprefix(prefix), tuple(values)))
    return tuple(chosen)
