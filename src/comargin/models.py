"""The registry of named models: one declaration each.

`train`, `compare`, ``--list-models``, the tables of the docs and the model files all read it. A package of yours adds
models by an entry point of the group ``comargin.models`` that names a `ModelRecipe`, or a list of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from .baselines import ChainEnsemble, KnownLabelsClassifier
from .core.imputer import MeanImputer
from .core.kernel_functions import scale_gamma
from .core.validation import learner_of
from .core.wording import did_you_mean
from .lsg21 import LSG21Classifier
from .m3l import M3LClassifier
from .rank import RankCVMClassifier, RankSVMClassifier
from .search import AutoClassifier
from .structured import CGMClassifier, StructuredSVMClassifier
from .svmplus import PrBRClassifier, PrMLClassifier


@dataclass(frozen=True)
class TimesScale:
    """Values of a kernel's gamma as multiples of 1 / (n_features * variance), which is ``gamma="scale"``."""

    factors: tuple[float, ...]

    def of(self, X: Any) -> tuple[float, ...]:
        """The values for these training features."""
        scale = scale_gamma(X)
        return tuple(factor * scale for factor in self.factors)


@dataclass(frozen=True)
class UpToHalfTheRows:
    """Numbers of neighbours, up to half of the training rows, the fewest that an inner fold may have."""

    values: tuple[int, ...]

    def of(self, X: Any) -> tuple[int, ...]:
        """The values for these training features."""
        return tuple(value for value in self.values if value <= X.shape[0] // 2) or (1,)


@dataclass(frozen=True)
class ModelRecipe:
    """A model with a name: an estimator, and how `train` and `compare` fit it on their rows.

    Attributes
    ----------
    name : str
        Name in tables and results files.
    estimator : estimator object
        Any scikit-learn classifier for indicators. It is cloned; a ``random_state`` of None, of its parts too, is
        replaced by a seed: that of `train`, or of the split.
    grid : tuple of (str, values)
        Parameters to search one after the other by `comargin.tune`, named as the estimator names them. Values are a
        tuple, or an object with ``of(X)`` that makes one from the training features.
    learn_cuts : bool
        Whether it takes a threshold rule, where one is asked for: its cuts then switch the labels on. False for a model
        whose label sets are more than a cut of its scores.
    takes_aim : bool
        Whether it takes an aim, where no rule is asked for: its calibrated probabilities then decide on its labels. A
        model without scores keeps its own label sets in any case.
    prepare : bool
        Whether texts, and sparse features without negative values, are weighted by TF-IDF, and dense ones standardised.
    description : str
        One line for people.
    saved : mapping of str to kind, or None
        Attributes that a fit of the estimator sets, as `comargin.persistence.register` takes them. None for estimators
        that model files know already, or that are not saved.
    """

    name: str
    estimator: Any
    grid: tuple[tuple[str, Any], ...] = ()
    learn_cuts: bool = False
    takes_aim: bool = True
    prepare: bool = True
    description: str = field(default="", compare=False)
    saved: Mapping[str, Any] | None = field(default=None, compare=False)


_GAMMAS = TimesScale((0.25, 1.0, 4.0))
_RANK_GRID = (("gamma", _GAMMAS), ("C", (0.25, 1.0, 4.0, 16.0, 64.0)))
_ALPHAS = (3.0, 1.0, 0.3, 0.1)  # smaller ones cost minutes, and are seldom chosen
_PRIVILEGED_GRID = (("C", (0.001, 0.01, 0.1, 1.0)), ("gamma2", (0.1, 1.0, 10.0)))

LEARNER = "model"  # name of the last step of a pipeline
# From so many texts on, words of a single text are dropped: they are half of a vocabulary, and no two texts share them.
_MANY_TEXTS = 1000

_REGISTRY: dict[str, ModelRecipe] = {}
_GROUP = "comargin.models"


def preparation(X: Any) -> list[tuple[str, Any]]:
    """Named transformers that make features ready.

    Texts, and sparse features without negative values (counts as a rule), become TF-IDF. Dense features are
    standardised; other sparse features stay as they are. Missing numbers (NaN) become the mean of their column first.
    """
    if isinstance(X, list):
        return [("tfidf", TfidfVectorizer(sublinear_tf=True, min_df=2 if len(X) >= _MANY_TEXTS else 1))]
    steps: list[tuple[str, Any]] = [("impute", MeanImputer(keep_empty_features=True))] if has_missing(X) else []
    if not sp.issparse(X):
        return [*steps, ("scale", StandardScaler())]
    if (X.data < 0.0).any():
        return steps
    return [*steps, ("tfidf", TfidfTransformer(sublinear_tf=True))]


def has_missing(X: Any) -> bool:
    """Whether features have NaN among them."""
    if isinstance(X, list):
        return False
    values = X.data if sp.issparse(X) else np.asarray(X)
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


@cache
def _load_plugins() -> None:
    """Register the models of installed packages, once; they cannot replace a known name. All or none, at an error."""
    found: dict[str, ModelRecipe] = {}
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        what = f"models: entry point {point.name!r} of {_GROUP}"
        try:
            loaded = point.load()
        except Exception as error:
            raise ImportError(f"{what}, {point.value}: {error}") from error
        for model in [loaded] if isinstance(loaded, ModelRecipe) else loaded:
            if not isinstance(model, ModelRecipe):
                raise TypeError(f"{what} gives {model!r}, not a ModelRecipe")
            if model.name in _REGISTRY or model.name in found:
                raise ValueError(f"{what} has the name of another, {model.name!r}")
            found[model.name] = model
    for model in found.values():
        register_model(model)


def known_models() -> dict[str, ModelRecipe]:
    """A copy of all models by name: ours, those of installed packages, and those registered here.

    Examples
    --------
    >>> known_models()["m3l"].description
    'M3L, linear, logistic loss; correlated labels if that helps'
    """
    _load_plugins()
    return dict(_REGISTRY)


def register_model(model: ModelRecipe) -> None:
    """Make a model known by its name, or replace the one that has it.

    Parameters
    ----------
    model : ModelRecipe
        The model.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> register_model(ModelRecipe("tree", DecisionTreeClassifier(), (("max_depth", (2, 4, 8, 16)),)))
    >>> "tree" in model_names()
    True
    """
    if not isinstance(model, ModelRecipe):
        raise ValueError(f"model must be a ModelRecipe, got {model!r}")
    _REGISTRY[model.name] = model


def model_names() -> tuple[str, ...]:
    """Names of models, for `train` and `comargin.comparison.compare`.

    Returns
    -------
    tuple of str
        Ours first, then scikit-learn's, then those registered later.

    Examples
    --------
    >>> model_names()[:3]
    ('auto', 'm3l', 'm3l-rbf')
    """
    return tuple(known_models())


def get_model(name: str) -> ModelRecipe:
    """The model of a name.

    Parameters
    ----------
    name : str
        One of `model_names`.

    Returns
    -------
    ModelRecipe
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
    known = known_models()
    if name in known:
        return known[name]
    raise ValueError(f"models: there is no model {name!r}; {did_you_mean(name, list(known))}")


def for_unknown_labels(recipe: ModelRecipe) -> ModelRecipe:
    """The recipe for partly unknown labels: a classifier of scikit-learn learns each label from the rows that know it.

    Other estimators stay: they take NaN, or say what they need.
    """
    estimator, grid = recipe.estimator, recipe.grid
    if not type(learner_of(estimator)).__module__.startswith("sklearn."):
        return recipe
    if isinstance(estimator, OneVsRestClassifier):
        return replace(recipe, estimator=KnownLabelsClassifier(estimator.estimator))
    own = tuple((f"estimator__{name}", values) for name, values in grid)
    return replace(recipe, estimator=KnownLabelsClassifier(estimator), grid=own)


def checked_models(models: Any) -> list[ModelRecipe]:
    """ModelRecipes from names, ModelRecipes and (name, estimator) pairs, with distinct names."""
    is_pair = isinstance(models, tuple) and len(models) == 2 and hasattr(models[1], "fit")
    if is_pair or isinstance(models, str | ModelRecipe):
        models = [models]
    if not isinstance(models, Iterable):
        raise ValueError(f"models must be a list of names, ModelRecipes or (name, estimator) pairs, got {models!r}")
    found = [_checked_model(model) for model in models]
    check_names([model.name for model in found], "models")
    return found


def check_names(names: list[Any], argument: str) -> None:
    """Raise unless there are names, all printable and distinct, as tables and results files need them."""
    if not names:
        raise ValueError(f"{argument} must hold at least one entry")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{argument} must have names that can be printed, got {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"{argument} must have distinct names; {name!r} stands there more than once")


def _checked_model(model: Any) -> ModelRecipe:
    if isinstance(model, str):
        return get_model(model)
    if isinstance(model, tuple | list) and len(model) == 2 and isinstance(model[0], str):
        model = ModelRecipe(model[0], model[1], takes_aim=False, prepare=False)
    if not isinstance(model, ModelRecipe):
        raise ValueError(f"models must hold names, ModelRecipes or (name, estimator) pairs, got {model!r}")
    estimator = model.estimator
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise ValueError(f"models: {model.name!r} must be an instance of a scikit-learn classifier, got {estimator!r}")
    known = {name.split("__")[0] for name in estimator.get_params(deep=True)}
    for name, _ in model.grid:
        if name.split("__")[0] not in known:
            raise ValueError(
                f"models: grid of {model.name!r}: no parameter {name!r}; {did_you_mean(name, sorted(known))}"
            )
    return model


_with_cuts = partial(ModelRecipe, learn_cuts=True)
for _model in (
    ModelRecipe(
        "auto",
        AutoClassifier(),
        prepare=False,  # it does so itself
        description="tries several of these and blends the best: no other name is needed",
    ),
    _with_cuts(
        "m3l",
        # The logistic loss ranks better than hinge on all six choosing sets, in less time. A constant feature of 1
        # holds intercepts back on dense rows: emotions has a ranking loss of 0.148 with it, else 0.141.
        M3LClassifier(loss="logistic", intercept_scaling="auto"),
        (("C", (0.001, 0.01, 0.1, 1.0, 10.0)), ("label_correlation", (None, "train"))),
        description="M3L, linear, logistic loss; correlated labels if that helps",
    ),
    _with_cuts(
        "m3l-rbf",
        M3LClassifier(kernel="rbf"),
        (("gamma", _GAMMAS), ("C", (0.1, 1.0, 10.0, 100.0))),
        description="M3L with an rbf kernel",
    ),
    ModelRecipe(
        "cgm",
        CGMClassifier(alpha=1.0, cliques_per_round=2),
        (("alpha", _ALPHAS),),
        description="clique generating machine: a structured SVM that learns its label graph; best labelings",
    ),
    ModelRecipe(
        "cgm-rbf",
        CGMClassifier(alpha=0.01, kernel="rbf", cliques_per_round=2),
        (("gamma", _GAMMAS), ("alpha", (0.03, 0.01, 0.003, 0.001))),
        description="CGM with an rbf kernel; best labelings",
    ),
    ModelRecipe(
        "ssvm-tree",
        StructuredSVMClassifier(alpha=1.0, graph="tree"),
        (("alpha", _ALPHAS),),
        description="structured SVM on the Chow-Liu tree of the labels; best labelings",
    ),
    _with_cuts(
        "rank-cvm", RankCVMClassifier(), _RANK_GRID, description="Rank-CVM, rbf: a ranking of the labels of every row"
    ),
    _with_cuts("rank-svm", RankSVMClassifier(), _RANK_GRID, description="Rank-SVM, rbf: the same with hinge loss"),
    _with_cuts(
        "lsg21",
        LSG21Classifier(),
        (("alpha", tuple(4.0**k for k in range(-5, 6))),),
        description="sparse least squares along the edges of a label graph",
    ),
    _with_cuts(
        "prbr",
        PrBRClassifier(),
        _PRIVILEGED_GRID,
        description="one SVM per label, the other labels as privileged information",
    ),
    _with_cuts("prml", PrMLClassifier(), _PRIVILEGED_GRID, description="PrBR with predictors of low rank"),
    _with_cuts(
        "ovr",
        OneVsRestClassifier(LogisticRegression(max_iter=1000)),
        (("estimator__C", (0.01, 0.1, 1.0, 10.0)),),
        description="scikit-learn: logistic regression per label",
    ),
    _with_cuts(
        "ovr-svm",
        OneVsRestClassifier(LinearSVC(max_iter=10000)),
        (("estimator__C", (0.001, 0.01, 0.1, 1.0, 10.0)),),
        description="scikit-learn: linear SVM per label",
    ),
    _with_cuts(
        "ovr-rbf",
        OneVsRestClassifier(SVC()),
        (("estimator__gamma", _GAMMAS), ("estimator__C", (0.1, 1.0, 10.0, 100.0))),
        description="scikit-learn: rbf SVM per label",
    ),
    _with_cuts(
        "chain",
        ChainEnsemble(LogisticRegression(max_iter=1000)),
        (("estimator__C", (0.01, 0.1, 1.0)),),
        description="scikit-learn: ten classifier chains of logistic regressions",
    ),
    _with_cuts(
        "forest",
        RandomForestClassifier(n_estimators=200),
        (("min_samples_leaf", (1, 2, 5, 10)),),
        description="scikit-learn: random forest on all labels",
    ),
    _with_cuts(
        "extra-trees",
        ExtraTreesClassifier(n_estimators=200),
        (("min_samples_leaf", (1, 2, 5, 10)),),
        description="scikit-learn: extremely randomised trees on all labels",
    ),
    _with_cuts(
        "knn",
        KNeighborsClassifier(),
        (("n_neighbors", UpToHalfTheRows((1, 5, 10, 20))),),
        description="scikit-learn: nearest neighbours on all labels",
    ),
):
    register_model(_model)
