"""Cross-fitting: scores of rows that a classifier has not learned from."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags

from ..core.checks import finite_scores
from ..core.executor import Processes, Task, run
from ..core.indicator import split_unknown
from ..core.memory import Memory, fit_clone
from ..core.row_blocks import take_rows
from ..core.wording import CONSTANT_LABEL
from ..metrics import scores_of
from ..model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    Y: sparse.csr_array,
    splits: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    params: dict[str, Any],
    n_jobs: int | None,
    memory: Memory,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Any, NDArray[np.float64], NDArray[np.intp]]:
    """Score every row by a model that has not learned from it.

    ``y`` are the targets in the form the estimator takes, ``Y`` their indicator (NaN in unknown cells), ``params`` the
    arguments of its ``fit``. The scores of a fold are stored in ``memory`` under ``cuts/<fold>``; ``show`` reports each
    fold.

    Returns the estimator of a single split (None for several, or if its scores were stored), the finite scores
    (n_scored, n_labels) fold after fold, and their rows.
    """
    scores: dict[int, NDArray[np.float64]] = {}
    tasks = []
    for fold, (train, test) in enumerate(splits):
        kept = memory.recall(f"cuts/{fold}")
        if kept is None:
            wants_model = len(splits) == 1
            tasks.append(Task(_score_fold, (estimator, X, y, Y, train, test, params, memory, fold, wants_model)))
            continue
        shape = (len(test), Y.shape[1])
        if not (isinstance(kept, np.ndarray) and kept.dtype == np.float64 and kept.shape == shape):
            raise ValueError(
                f"the checkpoint of cuts/{fold} holds no scores of {shape[0]} rows and {shape[1]} labels; delete it"
            )
        scores[fold] = kept
        show("fold scored before")

    def done(result: tuple[int, Any, NDArray[np.float64]]) -> None:
        fold, _, scores[fold] = result
        memory.keep(f"cuts/{fold}", scores[fold])
        show("fold scored")

    # Filters of warnings belong to the process, and threads that end in another order than they began restore each
    # other's: this block around all of them has the last word.
    with _silent_about_constant_labels():
        found = run(tasks, Processes(n_jobs), done)
    in_order = np.vstack([scores[fold] for fold in range(len(splits))])
    return found[0][1] if found else None, fill_unlearned(in_order), np.concatenate([test for _, test in splits])


def _score_fold(
    estimator: Any,
    X: Any,
    y: Any,
    Y: sparse.csr_array,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    params: dict[str, Any],
    memory: Memory,
    fold: int,
    wants_model: bool,
) -> tuple[int, Any, NDArray[np.float64]]:
    """Fit on the training rows, score the test rows; labels constant in training score -inf or inf."""
    n_samples = Y.shape[0]
    columns = train if get_tags(estimator).input_tags.pairwise else None
    X_train, X_test = take_rows(X, train, columns), take_rows(X, test, columns)
    split_params = {
        name: take_rows(value, train) if one_per_row(value, n_samples) else value for name, value in params.items()
    }
    with _silent_about_constant_labels():
        fitted = fit_clone(estimator, X_train, y[train], memory, f"cuts/{fold}", params=split_params)
    scores = score_matrix(fitted, X_test, Y.shape[1])
    ones, known = split_unknown(Y[train], "y")
    positives = np.asarray(ones.sum(axis=0))
    scores[:, positives == (len(train) if known is None else np.count_nonzero(known, axis=0))] = np.inf
    scores[:, positives == 0] = -np.inf
    return fold, fitted if wants_model else None, scores


@contextmanager
def _silent_about_constant_labels() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", CONSTANT_LABEL, UserWarning)
        yield


def splits_of(
    cv: Any, X: Any, y: Any, groups: Any, random_state: Any
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of every fold, by a ``cv`` as `CrossFittedClassifier` takes it, without "prefit"."""
    if isinstance(cv, bool | str) or cv is None:
        raise ValueError(f'cv must be an int, a float, a splitter, an iterable or "prefit"; got {cv!r}.')
    if isinstance(cv, int | np.integer):
        shuffle = random_state is not None
        cv = MultilabelStratifiedKFold(int(cv), shuffle=shuffle, random_state=random_state)
    elif isinstance(cv, float | np.floating):
        if not 0.0 < cv < 1.0:
            raise ValueError(f"cv as a float is the share of rows held out, between 0 and 1; got {cv}.")
        cv = MultilabelStratifiedShuffleSplit(1, test_size=float(cv), random_state=random_state)
    return [(np.asarray(a), np.asarray(b)) for a, b in check_cv(cv).split(X, y, groups)]


def one_per_row(value: Any, n_samples: int) -> bool:
    if isinstance(value, str | bytes | dict) or not (hasattr(value, "__len__") or hasattr(value, "shape")):
        return False
    return (value.shape[0] if getattr(value, "shape", ()) else len(value)) == n_samples


def score_matrix(estimator: Any, X: Any, n_labels: int) -> NDArray[np.float64]:
    scores = np.array(scores_of(estimator, X, n_labels=n_labels), dtype=np.float64)
    return finite_scores(scores, estimator)


def fill_unlearned(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace infinite scores by the lowest or highest finite one of their label (0 where there is none)."""
    for label in np.flatnonzero(~np.isfinite(scores).all(axis=0)):
        column = scores[:, label]
        known = column[np.isfinite(column)]
        low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
        scores[:, label] = np.clip(column, low, high)
    return scores
