"""From a recipe to an estimator for the data at hand: features made ready, seeds set, parameters searched."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..core.estimator import MultilabelClassifier
from ..core.memory import Memory
from ..models import ModelRecipe
from ..search.tuning import tune_with_memory

LEARNER = "model"  # name of the last step of a pipeline
# From so many texts on, words that only one of them has are left out: they are half of a vocabulary, and tell nothing.
_MANY_TEXTS = 1000
_COARSER = 10.0  # tolerance of a fit of the search, relative to that of the last fit; as in `M3LClassifierCV`


def preparation(X: Any) -> list[tuple[str, Any]]:
    """Steps that make features ready.

    Parameters
    ----------
    X : ndarray, sparse matrix or list of str
        Features or texts.

    Returns
    -------
    list of (str, transformer)
        TF-IDF of texts, and of sparse features without negative values, which are counts as a rule; dense features
        are standardised; other sparse features stay as they are.
    """
    if isinstance(X, list):
        return [("tfidf", TfidfVectorizer(sublinear_tf=True, min_df=2 if len(X) >= _MANY_TEXTS else 1))]
    if not sp.issparse(X):
        return [("scale", StandardScaler())]
    if X.nnz and X.data.min() < 0.0:
        return []
    return [("tfidf", TfidfTransformer(sublinear_tf=True))]


def build(recipe: ModelRecipe, X: Any, seed: int) -> Any:
    """The estimator of a recipe, not fitted: in a Pipeline where features are made ready, with seeds.

    Parameters
    ----------
    recipe : ModelRecipe
        What to build.
    X : ndarray, sparse matrix or list of str
        Features it will be fitted on, which decide how they are made ready.
    seed : int
        Replaces a ``random_state`` of None.

    Returns
    -------
    estimator
        A new one.
    """
    steps = preparation(X) if recipe.prepare else []
    learner = clone(recipe.estimator)
    estimator = Pipeline([*steps, (LEARNER, learner)]) if steps else learner
    unseeded = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    return estimator.set_params(**unseeded)


def prefix_of(estimator: Any) -> str:
    """What stands before the learner's parameters in the names of ``set_params``."""
    return f"{LEARNER}__" if isinstance(estimator, Pipeline) else ""


def learner_of(estimator: Any) -> Any:
    """The last step of a Pipeline, or the estimator itself."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def search(
    estimator: Any,
    grid: tuple[tuple[str, Any], ...],
    X: Any,
    Y: NDArray[Any] | sp.csr_array,
    *,
    criterion: str,
    folds: int,
    seed: int,
    n_jobs: int | None = None,
    verbose: int = 0,
    memory: Memory | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Search the learner's parameters one after the other.

    Fits of the search have ten times the tolerance of our learners: choosing needs less than the last fit.

    Parameters
    ----------
    estimator : estimator
        As `build` returns it.
    grid : tuple of (str, values)
        As in a recipe.
    X, Y : array-like
        Training rows.
    criterion : str
        What is best; see `comargin.tune`.
    folds : int
        Inner folds.
    seed : int
        Shuffles them.
    n_jobs : int or None
        Threads.
    verbose : int
        1 shows progress.
    memory : Memory or None
        Keeps the place of the best value of every parameter under ``best/<name>``.

    Returns
    -------
    estimator
        With the best parameters, not fitted.
    dict
        Best value of every parameter, by the learner's names.
    """
    prefix = prefix_of(estimator)
    features = X
    if prefix and any(hasattr(values, "of") for _, values in grid):
        features = clone(estimator[:-1]).fit_transform(X)
    coarse: dict[str, float] = {}
    learner = learner_of(estimator)
    if isinstance(learner, MultilabelClassifier) and "tol" not in dict(grid):
        coarse[f"{prefix}tol"] = _COARSER * learner.tol
    memory = memory or Memory()
    best: dict[str, Any] = {}
    for name, values in grid:
        tried = list(values.of(features) if hasattr(values, "of") else values)
        place = memory.recall(f"best/{name}")
        if place is None:
            result = tune_with_memory(
                clone(estimator).set_params(**coarse),
                X,
                Y,
                [(prefix + name, tried)],
                criterion=criterion,
                cv=folds,
                sample_weight=None,
                n_jobs=n_jobs,
                random_state=seed,
                verbose=verbose,
                refit=False,
                memory=memory,
            )
            place = result.steps[0].best_index
            memory.keep(f"best/{name}", place)
            memory.forget(f"search/{name.rpartition('__')[2]}")
        elif type(place) is not int or not 0 <= place < len(tried):
            raise ValueError(f"the checkpoint has value {place!r} of {name}, of {len(tried)}; delete its folder")
        best[name] = tried[place]
        estimator = clone(estimator).set_params(**{prefix + name: best[name]})
    return estimator, best
