"""Parts of a fitted model: wrappers, transformers, the classifier inside, its weights, cuts and certificate.

Objects are recognised by the attributes that scikit-learn documents, so estimators of other packages work too.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.wording import shortened
from .theme import number

_LONGEST_VALUE = 160


@dataclass(frozen=True)
class Anatomy:
    """A fitted model taken apart."""

    model: Any  # the whole, which predicts
    layers: tuple[Any, ...]  # from the outermost inwards: wrappers, transformers of pipelines, the classifier
    transformers: tuple[Any, ...]  # those of the layers that change X, in the order they are applied
    classifier: Any  # the innermost layer, which has the weights

    def first(self, attribute: str) -> Any:
        """Value of an attribute of the outermost layer that has it, or None."""
        return next((getattr(layer, attribute) for layer in self.layers if hasattr(layer, attribute)), None)


def take_apart(model: Any) -> Anatomy:
    """Follow pipelines (``steps``), searches (``best_estimator_``) and wrappers (``estimator_``) to the classifier."""
    from ..core.validation import fitted_inside

    layers: list[Any] = []
    transformers: list[Any] = []
    classifier = inside = model
    while inside is not None:
        if hasattr(inside, "named_steps"):
            steps = [step for _, step in inside.steps[:-1] if step is not None and not isinstance(step, str)]
            layers += steps
            transformers += steps
        else:
            layers.append(inside)
        classifier, inside = inside, fitted_inside(inside)
    return Anatomy(model, tuple(layers), tuple(transformers), classifier)


def linear_weights(classifier: Any) -> np.ndarray | None:
    """Weights of a linear classifier, shape (n_labels, n_features); None if it is not linear in its features."""
    from ..core.explanation import linear_parts

    parts = linear_parts(classifier)
    return None if parts is None else parts[0]


def names_of_features(anatomy: Anatomy, given: Sequence[str] | None, n_features: int) -> list[str]:
    """Names of the features the classifier sees, by the transformers; ``feature 0``, ... where one has no names."""
    from ..core.explanation import names_after

    names: Any = None if given is None or len(given) == 0 else np.array([str(name) for name in given], dtype=object)
    names = names_after(anatomy.transformers, names)
    if names is None:
        names = getattr(anatomy.classifier, "feature_names_in_", None)
    if names is None:
        return [f"feature {k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names must name the {n_features} features of the model, got {len(names)} names")
    return [str(name) for name in names]


def cuts_of(anatomy: Anatomy, n_labels: int) -> np.ndarray:
    """Cut of every label that the model says it uses: learned ones, else the middle of its scores."""
    learned = anatomy.first("thresholds_")
    if learned is not None and np.shape(learned) == (n_labels,):
        return np.asarray(learned, dtype=np.float64)
    return np.full(n_labels, 0.0 if hasattr(anatomy.model, "decision_function") else 0.5)


def parameters_of(estimator: Any) -> list[tuple[str, str, bool]]:
    """Name, value as text, and whether it is not the default, of every parameter; changed ones first."""
    if not hasattr(estimator, "get_params"):
        return []
    rows = []
    parameters = inspect.signature(type(estimator).__init__).parameters
    for name, value in estimator.get_params(deep=False).items():
        text = value_text(value)
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        rows.append((name, text, text != value_text(default)))
    return sorted(rows, key=lambda row: not row[2])


def value_text(value: Any) -> str:
    """A parameter or a piece of meta data in one line of bounded length."""
    if isinstance(value, str | int) or value is None:
        text = str(value)
    elif isinstance(value, float | np.floating):
        text = f"{float(value):.6g}"
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key}: {value_text(item)}" for key, item in value.items())
    elif isinstance(value, list | tuple):
        shown = ", ".join(value_text(item) for item in value[:20])
        text = f"{shown}, ... ({len(value)} in all)" if len(value) > 20 else shown
    elif isinstance(value, np.ndarray | sp.sparray | sp.spmatrix) and value.ndim == 2:
        text = f"array of shape {value.shape}"
    else:
        text = getattr(value, "__name__", None) or repr(value)
    text = " ".join(text.split())
    return shortened(text, _LONGEST_VALUE)


def tuned_values(anatomy: Anatomy) -> list[tuple[str, str]]:
    """What was chosen from data besides the weights: parameters of searches and paths, cuts, with their scores."""
    found = []
    for layer in anatomy.layers:
        name = type(layer).__name__
        if isinstance(getattr(layer, "best_params_", None), Mapping):
            found += [(f"{key} ({name})", value_text(value)) for key, value in layer.best_params_.items()]
        for parameter in ("C", "alpha"):  # learners fitted along a path of values
            best, tried = (getattr(layer, f"{parameter}{ending}", None) for ending in ("_", "s_"))
            if best is not None and tried is not None:
                span = f"{len(tried)} from {number(min(tried))} to {number(max(tried))}"
                found.append((f"{parameter} ({name})", f"{value_text(best)}, the best of {span}"))
        if hasattr(layer, "best_score_"):
            found.append((f"mean score in the folds ({name})", number(layer.best_score_)))
        if hasattr(layer, "rule_"):
            found.append((f"rule ({name})", value_text(layer.rule_)))
        for attribute, meaning in (("cut_", "cut of all labels"), ("k_", "labels on in every row")):
            if hasattr(getattr(layer, "rule_", None), attribute):
                found.append((meaning, number(getattr(layer.rule_, attribute))))
    return found


def certificate_text(classifier: Any) -> str | None:
    """The certificate of a fit in plain words; None for a model without one."""
    values = [getattr(classifier, name, None) for name in ("objective_", "dual_objective_", "duality_gap_")]
    if any(value is None or not np.isfinite(value) for value in values):
        return None
    objective, dual, gap = (float(value) for value in values if value is not None)
    bound = getattr(classifier, "lower_bound_", None)  # of learners whose problem is convex only step by step
    what = "solution" if bound is None else "solution of its last convex step"
    proof = (
        f"Training minimised an objective and reached {objective:.6g}. A dual proves that no {what} is below "
        f"{dual:.6g}, so at most {max(gap, 0.0):.3g} is left to gain{'' if bound is None else ' by it'}"
    )
    if objective != 0.0:
        proof += f": {100.0 * max(gap, 0.0) / abs(objective):.2g} % of the objective"
    if bound is None:
        return f"{proof}."
    return f"{proof}. The whole problem is not convex; none of its solutions is below {float(bound):.6g}."
