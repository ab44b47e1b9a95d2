"""The models that can be compared by name, each with its grid; the list is open."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from ..estimators import (
    CGMClassifier,
    LSG21Classifier,
    M3LClassifier,
    PrBRClassifier,
    PrMLClassifier,
    RankCVMClassifier,
    RankSVMClassifier,
    StructuredSVMClassifier,
)
from ._chains import ChainEnsemble


@dataclass(frozen=True)
class TimesScale:
    """Values of a kernel's gamma as multiples of 1 / (n_features * variance), which is ``gamma="scale"``."""

    factors: tuple[float, ...]

    def of(self, X: Any) -> tuple[float, ...]:
        """The values for these training features."""
        mean = X.mean()
        squares = X.multiply(X).mean() if sp.issparse(X) else np.square(X).mean()
        variance = float(squares - mean**2)
        scale = 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
        return tuple(factor * scale for factor in self.factors)


@dataclass(frozen=True)
class UpToHalfTheRows:
    """Numbers of neighbours; those beyond half of the training rows, all that an inner fold may have, are left out."""

    values: tuple[int, ...]

    def of(self, X: Any) -> tuple[int, ...]:
        """The values for these training features."""
        return tuple(value for value in self.values if value <= X.shape[0] // 2) or (1,)


@dataclass(frozen=True)
class ComparedModel:
    """A model of a comparison: an estimator, and what is done with it in every training part.

    Attributes
    ----------
    name : str
        What tables and results files call it.
    estimator : estimator object
        Any scikit-learn classifier for indicators. It is cloned; a ``random_state`` of None, of its parts too, is
        replaced by a seed of the split.
    grid : tuple of (str, values)
        Parameters to search one after the other by `comargin.tune`, named as the estimator names them. Values are a
        tuple, or an object with ``of(X)`` that makes one from the training features.
    learn_cuts : bool
        Whether its labels are switched on by a threshold rule learned on inner folds. False for a model whose
        label sets are more than a cut of its scores.
    prepare : bool
        Whether features are made ready first: texts by TF-IDF, dense features standardised, sparse ones as they are.
    description : str
        One line for people.
    """

    name: str
    estimator: Any
    grid: tuple[tuple[str, Any], ...] = ()
    learn_cuts: bool = False
    prepare: bool = True
    description: str = field(default="", compare=False)


_GAMMAS = TimesScale((0.25, 1.0, 4.0))
_RANK_GRID = (("gamma", _GAMMAS), ("C", (0.25, 1.0, 4.0, 16.0, 64.0)))
_ALPHAS = (3.0, 1.0, 0.3, 0.1)  # smaller ones cost minutes, and are seldom chosen
_PRIVILEGED_GRID = (("C", (0.001, 0.01, 0.1, 1.0)), ("gamma2", (0.1, 1.0, 10.0)))

_REGISTRY: dict[str, ComparedModel] = {}


def register_model(model: ComparedModel) -> None:
    """Make a model known by its name, or replace the one that has it.

    Parameters
    ----------
    model : ComparedModel
        The model.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> register_model(ComparedModel("tree", DecisionTreeClassifier(), (("max_depth", (2, 4, 8, 16)),)))
    >>> "tree" in model_names()
    True
    """
    if not isinstance(model, ComparedModel):
        raise ValueError(f"model must be a ComparedModel, got {model!r}")
    _REGISTRY[model.name] = model


def model_names() -> tuple[str, ...]:
    """Names that `compare` knows.

    Returns
    -------
    tuple of str
        Ours first, then scikit-learn's, then those registered later.

    Examples
    --------
    >>> model_names()[:3]
    ('m3l', 'm3l-rbf', 'cgm')
    """
    return tuple(_REGISTRY)


def get_model(name: str) -> ComparedModel:
    """The model of a name.

    Parameters
    ----------
    name : str
        One of `model_names`.

    Returns
    -------
    ComparedModel
        Its estimator, grid and description.

    Examples
    --------
    >>> get_model("knn").grid
    (('n_neighbors', UpToHalfTheRows(values=(1, 5, 10, 20))),)
    >>> get_model("rank-cmv")
    Traceback (most recent call last):
    ...
    ValueError: models: there is no model 'rank-cmv'; did you mean 'rank-cvm' or 'rank-svm'?
    """
    if name in _REGISTRY:
        return _REGISTRY[name]
    raise ValueError(f"models: there is no model {name!r}; {nearest(name.lower(), list(_REGISTRY))}")


def nearest(name: str, known: list[str]) -> str:
    """What a name that is not known may have meant, for an error message."""
    near = difflib.get_close_matches(name, known, n=2)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(known)}"


def checked_models(models: Any) -> list[ComparedModel]:
    """Models as `compare` takes them: names, ComparedModels and (name, estimator) pairs, with distinct names."""
    is_pair = isinstance(models, tuple) and len(models) == 2 and hasattr(models[1], "fit")
    if is_pair or isinstance(models, str | ComparedModel):
        models = [models]
    if not isinstance(models, Iterable):
        raise ValueError(f"models must be a list of names, ComparedModels or (name, estimator) pairs, got {models!r}")
    found = [_checked_model(model) for model in models]
    check_names([model.name for model in found], "models")
    return found


def check_names(names: list[Any], argument: str) -> None:
    """Raise unless there are names, printable ones, all different: tables and results files rest on them."""
    if not names:
        raise ValueError(f"{argument} must hold at least one entry")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{argument} must have names that can be printed, got {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"{argument} must have distinct names; {name!r} stands there more than once")


def _checked_model(model: Any) -> ComparedModel:
    if isinstance(model, str):
        return get_model(model)
    if isinstance(model, tuple | list) and len(model) == 2 and isinstance(model[0], str):
        model = ComparedModel(model[0], model[1], prepare=False)
    if not isinstance(model, ComparedModel):
        raise ValueError(f"models must hold names, ComparedModels or (name, estimator) pairs, got {model!r}")
    estimator = model.estimator
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise ValueError(f"models: {model.name!r} must be an instance of a scikit-learn classifier, got {estimator!r}")
    known = {name.split("__")[0] for name in estimator.get_params(deep=True)}
    for name, _ in model.grid:
        if name.split("__")[0] not in known:
            raise ValueError(f"models: grid of {model.name!r}: no parameter {name!r}; {nearest(name, sorted(known))}")
    return model


for _model in (
    ComparedModel(
        "m3l",
        M3LClassifier(),
        (("C", (0.001, 0.01, 0.1, 1.0, 10.0)), ("label_correlation", (None, "train"))),
        learn_cuts=True,
        description="M3L, linear; correlated labels if that helps",
    ),
    ComparedModel(
        "m3l-rbf",
        M3LClassifier(kernel="rbf"),
        (("gamma", _GAMMAS), ("C", (0.1, 1.0, 10.0, 100.0))),
        learn_cuts=True,
        description="M3L with an rbf kernel",
    ),
    ComparedModel(
        "cgm",
        CGMClassifier(cliques_per_round=2),
        (("alpha", _ALPHAS),),
        description="clique generating machine: a structured SVM that learns its label graph; best labelings",
    ),
    ComparedModel(
        "ssvm-tree",
        StructuredSVMClassifier(graph="tree"),
        (("alpha", _ALPHAS),),
        description="structured SVM on the Chow-Liu tree of the labels; best labelings",
    ),
    ComparedModel(
        "rank-cvm",
        RankCVMClassifier(),
        _RANK_GRID,
        learn_cuts=True,
        description="Rank-CVM, rbf: a ranking of the labels of every row",
    ),
    ComparedModel(
        "rank-svm",
        RankSVMClassifier(),
        _RANK_GRID,
        learn_cuts=True,
        description="Rank-SVM, rbf: the same with hinge loss",
    ),
    ComparedModel(
        "lsg21",
        LSG21Classifier(),
        (("alpha", tuple(4.0**k for k in range(-5, 6))),),
        learn_cuts=True,
        description="sparse least squares along the edges of a label graph",
    ),
    ComparedModel(
        "prbr",
        PrBRClassifier(),
        _PRIVILEGED_GRID,
        learn_cuts=True,
        description="one SVM per label, the other labels as privileged information",
    ),
    ComparedModel(
        "prml",
        PrMLClassifier(),
        _PRIVILEGED_GRID,
        learn_cuts=True,
        description="PrBR with predictors of low rank",
    ),
    ComparedModel(
        "ovr",
        OneVsRestClassifier(LogisticRegression(max_iter=1000)),
        (("estimator__C", (0.01, 0.1, 1.0, 10.0)),),
        learn_cuts=True,
        description="scikit-learn: logistic regression per label",
    ),
    ComparedModel(
        "ovr-svm",
        OneVsRestClassifier(LinearSVC(max_iter=10000)),
        (("estimator__C", (0.001, 0.01, 0.1, 1.0, 10.0)),),
        learn_cuts=True,
        description="scikit-learn: linear SVM per label",
    ),
    ComparedModel(
        "ovr-rbf",
        OneVsRestClassifier(SVC()),
        (("estimator__gamma", _GAMMAS), ("estimator__C", (0.1, 1.0, 10.0, 100.0))),
        learn_cuts=True,
        description="scikit-learn: rbf SVM per label",
    ),
    ComparedModel(
        "chain",
        ChainEnsemble(LogisticRegression(max_iter=1000)),
        (("estimator__C", (0.01, 0.1, 1.0)),),
        learn_cuts=True,
        description="scikit-learn: ten classifier chains of logistic regressions",
    ),
    ComparedModel(
        "forest",
        RandomForestClassifier(n_estimators=200),
        (("min_samples_leaf", (1, 2, 5, 10)),),
        learn_cuts=True,
        description="scikit-learn: random forest on all labels",
    ),
    ComparedModel(
        "knn",
        KNeighborsClassifier(),
        (("n_neighbors", UpToHalfTheRows((1, 5, 10, 20))),),
        learn_cuts=True,
        description="scikit-learn: nearest neighbours on all labels",
    ),
):
    register_model(_model)
