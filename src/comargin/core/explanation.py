"""Why a label has its score: the contributions that sum to it.

`explain` goes through pipelines, searches and wrappers to the classifier inside: a learner that writes
``_explanations(X, asked, top, names)``, best by `linear_explanations`, or any classifier linear in its features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .checks import whole_number
from .indicator import check_indicator
from .validation import Matrix, _canonical, fitted_inside

# Scores of a linear model differ from x w + b by rounding, relative to the largest.
_ROUNDING = 1e-5


class NoExplanationError(ValueError):
    """The model has scores that `explain` cannot explain."""


class Contribution(NamedTuple):
    """What one thing adds to a score.

    Attributes
    ----------
    kind : {"feature", "training_row", "with", "without", "attribute"}
        A feature; a training row; other labels that are on, or off; an attribute of a class.
    name : str, int or tuple
        Name of the feature, or its number; number of the row or attribute; the other labels.
    value : float
        What it adds.
    """

    kind: str
    name: Any
    value: float

    @property
    def text(self) -> str:
        """What it is, in words."""
        if isinstance(self.name, tuple):
            return f"{self.kind} {' and '.join(map(str, self.name))}"
        return self.name if isinstance(self.name, str) else f"{self.kind.replace('_', ' ')} {self.name}"

    def __str__(self) -> str:
        return f"{self.text} {self.value:+.3g}"


class Explanation(NamedTuple):
    """Why a row has the score of a label: ``contributions``, ``others`` and ``intercept`` sum to it.

    Attributes
    ----------
    label : int or str
        Number of the label, or its name.
    score : float
        The score.
    contributions : tuple of Contribution
        The strongest, in their order.
    others : float
        Sum of all other contributions.
    intercept : float
        What does not depend on the row.
    """

    label: int | str
    score: float
    contributions: tuple[Contribution, ...]
    others: float
    intercept: float

    def __str__(self) -> str:
        terms = [*map(str, self.contributions), f"others {self.others:+.3g}", f"intercept {self.intercept:+.3g}"]
        return f"{self.label}: {', '.join(terms)} = {self.score:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """All but the label, as JSON takes it; a contribution is ``{kind: name, "value": value}``."""
        terms = [
            {kind: list(name) if isinstance(name, tuple) else name, "value": value}
            for kind, name, value in self.contributions
        ]
        return {"score": self.score, "contributions": terms, "others": self.others, "intercept": self.intercept}

    def with_names(self, label_names: Sequence[str]) -> Explanation:
        """The same with names in place of the numbers of labels.

        Parameters
        ----------
        label_names : sequence of str
            Name of every label.
        """
        terms = (
            term._replace(name=tuple(label_names[k] for k in term.name)) if isinstance(term.name, tuple) else term
            for term in self.contributions
        )
        return self._replace(label=label_names[int(self.label)], contributions=tuple(terms))

    def negated(self) -> Explanation:
        """The explanation of minus the score."""
        terms = tuple(term._replace(value=-term.value) for term in self.contributions)
        return Explanation(self.label, -self.score, terms, -self.others, -self.intercept)


class ExplanationMixin:
    """Adds `explain` to a classifier."""

    def explain(
        self, X: Any, *, top: int = 5, labels: Any = None, feature_names: Sequence[str] | None = None
    ) -> list[list[Explanation]]:
        """Say why labels have their scores: `comargin.explain` of this classifier, with the same arguments."""
        return explain(self, X, top=top, labels=labels, feature_names=feature_names)


def explain(
    model: Any, X: Any, *, top: int = 5, labels: Any = None, feature_names: Sequence[str] | None = None
) -> list[list[Explanation]]:
    r"""Say why labels have their scores: the strongest contributions, which with the rest sum to the score.

    Parameters
    ----------
    model : estimator
        A fitted learner of this library, or a linear classifier: one with ``decision_function`` and ``coef_``, also in
        a `OneVsRestClassifier`; each also in a `Pipeline`, a search or a classifier that wraps it.
    X : array-like, sparse matrix or list of str
        Rows, as for ``predict``.
    top : int, default=5
        Contributions of each score that are named; the others are summed.
    labels : sequence of int, indicator of shape (n_samples, n_labels) or None, default=None
        Labels to explain, the same of every row or of each its own. None: those that ``predict`` switches on. With a
        1-D y of two classes there is one score, label 0, that of the second class.
    feature_names : sequence of str or None, default=None
        Names of the columns of X; those seen in ``fit`` when None, or else numbers. Transformers of a pipeline, such as
        `TfidfVectorizer`, name their outputs themselves.

    Returns
    -------
    list of list of Explanation
        For every row one explanation per label, in the order of the labels.

    Notes
    -----
    The score is that of the classifier's ``decision_function``, before any cut:

    - linear learners: features add :math:`x_j w_{lj}`;
    - kernels: training rows add their coefficient times the kernel value;
    - structured learners: the score is that of the best labeling with the label on minus with it off, the other labels
      held. Features add :math:`x_j g_{lj}`, and each clique its own difference, named by the other labels in it that
      are on ("with"), or by all of them if they are off ("without");
    - `ZeroShotClassifier`: the attributes add their scores, with the signs of the signature.

    Examples
    --------
    >>> from comargin import M3LClassifier, explain
    >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [3.0, 1.0], [1.0, 3.0]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> model = M3LClassifier(C=10.0, fit_intercept=False, tol=1e-9, random_state=0).fit(X, Y)
    >>> print(*explain(model, [[2.0, 0.5]], feature_names=["width", "height"])[0])
    0: width +2, height -0.5, others +0, intercept +0 = 1.5
    """
    whole_number("top", top, 1)
    if hasattr(model, "fit"):
        check_is_fitted(model)
    require_explainable(model)
    asked = _asked(model, X, labels)
    names: Any = None if feature_names is None or len(feature_names) == 0 else np.array(list(feature_names), object)
    while (inside := _inside(model)) is not None:
        if isinstance(model, Pipeline) and len(model) > 1:
            names = names_after([step for _, step in model[:-1].steps], names)
            X = model[:-1].transform(X)
        model = inside
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    elif len(names) != (n_features := getattr(model, "n_features_in_", len(names))):
        raise ValueError(f"feature_names must name the {n_features} features of the model, got {len(names)} names")
    if hasattr(model, "_explanations"):
        return model._explanations(X, asked, int(top), names)
    parts = linear_parts(model)
    assert parts is not None
    scores = np.asarray(model.decision_function(X)).reshape(len(asked), -1)
    X = _canonical(check_array(X, accept_sparse="csr", dtype=np.float64))
    linear = np.asarray(X @ parts[0].T) + parts[1]
    if scores.shape != linear.shape or not np.allclose(scores, linear, _ROUNDING, _ROUNDING * np.abs(scores).max()):
        raise _refusal(model)
    return linear_explanations(X, *parts, asked, int(top), names)


def require_explainable(model: Any) -> None:
    """Raise an error that names the classifier if `explain` cannot explain it."""
    while (inside := _inside(model)) is not None:
        model = inside
    is_linear = hasattr(model, "decision_function") and linear_parts(model) is not None
    if not (is_linear or hasattr(model, "_explanations")):
        raise _refusal(model)


def linear_explanations(
    X: Matrix,
    coef: np.ndarray,
    intercept: np.ndarray,
    asked: Sequence[np.ndarray],
    top: int,
    names: Any = None,
    *,
    kind: str = "feature",
    more: Callable[[int, int], list[Contribution]] | None = None,
) -> list[list[Explanation]]:
    """Explanations of f_l(x) = sum_j x_j coef_lj + intercept_l, and what else ``more`` lists for a row and a label.

    X is canonical, ``asked`` has the labels of every row, ``names`` is an array of names (or numbers) of the columns.
    """
    most = max((int(labels.max()) for labels in asked if len(labels)), default=-1)
    if most >= len(coef):
        raise ValueError(f"labels must be numbers from 0 to {len(coef) - 1}, got {most}")
    found = []
    for i, labels in enumerate(asked):
        if isinstance(X, np.ndarray):
            columns, values = np.arange(X.shape[1]), X[i]
        else:
            part = slice(X.indptr[i], X.indptr[i + 1])
            columns, values = X.indices[part], X.data[part]
        row = []
        for label in labels.tolist():
            products = values * coef[label, columns]
            best = _strongest(products, top)
            named = columns[best] if names is None else np.asarray(names)[columns[best]]
            terms = [Contribution(kind, *term) for term in zip(named.tolist(), products[best].tolist(), strict=True)]
            terms = sorted([*terms, *(more(i, label) if more else [])], key=lambda term: -abs(term.value))
            products[best] = 0.0
            others = float(products.sum()) + sum(term.value for term in terms[top:])
            offset = float(intercept[label])
            score = sum(term.value for term in terms[:top]) + others + offset
            row.append(Explanation(label, score, tuple(terms[:top]), others, offset))
        found.append(row)
    return found


def linear_parts(classifier: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights (n_labels, n_features) and intercepts of a linear classifier; None if it is not linear in its features.

    A label whose estimator has none, because its training data was constant, gets weights of zero.
    """
    coef = getattr(classifier, "coef_", None)
    if coef is not None:
        weights = np.atleast_2d(_dense(coef))
        return weights, np.broadcast_to(np.ravel(getattr(classifier, "intercept_", 0.0)), len(weights))
    estimators = getattr(classifier, "estimators_", None)
    if not isinstance(estimators, list) or any(not hasattr(one, "predict") for one in estimators):
        return None
    rows = [_dense(one.coef_).ravel() if hasattr(one, "coef_") else None for one in estimators]
    lengths = {row.size for row in rows if row is not None}
    is_linear = all(hasattr(one, "coef_") or not hasattr(one, "classes_") for one in estimators)
    if len(lengths) != 1 or not is_linear:
        return None  # also a chain, where every label has the labels before it as features
    intercept = [np.ravel(getattr(one, "intercept_", getattr(one, "y_", 0.0)))[0] for one in estimators]
    return np.array([np.zeros(max(lengths)) if row is None else row for row in rows]), np.array(intercept, np.float64)


def names_after(steps: Iterable[Any], names: Any) -> Any:
    """Names of the features that transformers make of features with these names; None where one has no names."""
    for step in steps:
        if step is not None and not isinstance(step, str):  # passthrough
            given = () if hasattr(step, "feature_names_in_") else (names,)
            names = step.get_feature_names_out(*given) if hasattr(step, "get_feature_names_out") else None
    return names


def _inside(model: Any) -> Any:
    """What stands in a model; None for what explains itself, and for the innermost."""
    return None if hasattr(model, "_explanations") else fitted_inside(model)


def _asked(model: Any, X: Any, labels: Any) -> list[np.ndarray]:
    """Labels to explain of every row."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels is None:
        labels = model.predict(X)
        if np.ndim(labels) == 1 and not sp.issparse(labels):
            if len(model.classes_) <= 2:
                return [np.zeros(1, dtype=np.intp)] * n_rows
            return list(np.searchsorted(model.classes_, labels)[:, None])
    if sp.issparse(labels) or np.ndim(labels) == 2:
        Y = check_indicator(labels, "labels")
        if Y.shape[0] != n_rows:
            raise ValueError(f"labels has {Y.shape[0]} rows, but X has {n_rows}")
        return np.split(Y.indices, Y.indptr[1:-1])
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or (numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0)):
        raise ValueError(f"labels must be numbers of labels, an indicator or None, got {labels!r}")
    return [numbers.astype(np.intp)] * n_rows


def _refusal(model: Any) -> NoExplanationError:
    inner = model.get_params(deep=False).get("estimator") if hasattr(model, "estimators_") else None
    of = "" if inner is None else f" of {type(inner).__name__}"
    return NoExplanationError(
        f"{type(model).__name__}{of} gives no explanation of its scores; the learners of comargin do, and linear "
        "classifiers, such as LogisticRegression and LinearSVC in a OneVsRestClassifier"
    )


def _strongest(values: np.ndarray, top: int) -> np.ndarray:
    """Places of the ``top`` largest absolute values that are not zero, in their order."""
    size = np.abs(values)
    chosen = np.sort(np.argpartition(-size, top - 1)[:top]) if len(size) > top else np.arange(len(size))
    chosen = chosen[np.argsort(-size[chosen], kind="stable")]
    return chosen[size[chosen] > 0.0]


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
