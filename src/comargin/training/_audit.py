"""Which labels of a data set are probably wrong: from rows with names to suspicious cells with names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.checks import whole_number
from ..core.executor import Threads, chosen_or, using
from ..core.memory import Memory
from ..core.progress import Progress
from ..core.row_blocks import row_blocks
from ..core.validation import has_scores
from ..data import Dataset
from ..decisions import LabelCalibrator, LabelIssues, find_label_issues
from ..decisions.cross_fit import cross_fit, splits_of
from ..models import ModelRecipe, checked_models
from ..search import suited
from ._train import checked_rows, takes_sparse_labels
from .building import build, full_name, prefix_of, with_named_parameters

_CELLS_AT_ONCE = 20_000_000  # rows times labels that are learned together: 160 MB of scores


@dataclass(frozen=True)
class Audit:
    """What `audit` finds, in names.

    Attributes
    ----------
    found : LabelIssues
        The same in numbers.
    label_names : tuple of str
        Names of the labels.
    model : str
        Name of the model that the probabilities come from.
    row_names : sequence or None
        What the rows are called; None: their numbers from 0.
    """

    found: LabelIssues
    label_names: tuple[str, ...]
    model: str
    row_names: Sequence[Any] | None = None

    def cells(self) -> list[dict[str, Any]]:
        """Suspicious cells, the most suspicious first.

        Returns
        -------
        list of dict
            ``row``, ``label``, ``problem`` ("wrong": the label is given; "missing": it is not), ``score``,
            ``probability`` and ``exchanged_with``, a label or None.
        """
        found, names = self.found, self.label_names
        columns = (found.rows, found.labels, found.given, found.scores, found.probabilities, found.partners)
        return [
            {
                "row": row if self.row_names is None else self.row_names[row],
                "label": names[label],
                "problem": "wrong" if given else "missing",
                "score": score,
                "probability": probability,
                "exchanged_with": None if partner < 0 else names[partner],
            }
            for row, label, given, score, probability, partner in zip(*(c.tolist() for c in columns), strict=True)
        ]

    def pairs(self) -> list[dict[str, Any]]:
        """Labels that are confused, the clearest first.

        Returns
        -------
        list of dict
            ``label``, ``given_instead``, ``observed`` and ``expected``: disagreement with the scores, in rows.
        """
        found, names = self.found, self.label_names
        return [
            {"label": names[a], "given_instead": names[b], "observed": observed, "expected": expected}
            for (a, b), observed, expected in zip(
                found.pairs.tolist(), found.observed.tolist(), found.expected.tolist(), strict=True
            )
        ]

    def labels(self) -> list[dict[str, Any]]:
        """Noise of every label, in order.

        Returns
        -------
        list of dict
            ``label``, ``rows`` that have it, ``wrong``: estimated share of these that should not, and ``missing``:
            estimated share of the others that should.
        """
        found = self.found
        columns = (found.positives, found.wrong_rate, found.missing_rate)
        return [
            {"label": name, "rows": rows, "wrong": wrong, "missing": missing}
            for name, rows, wrong, missing in zip(self.label_names, *(c.tolist() for c in columns), strict=True)
        ]


def audit(
    dataset: Dataset,
    model: str | ModelRecipe | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    folds: int = 5,
    most: int = 1000,
    row_names: Sequence[Any] | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Audit:
    """Find labels that are probably wrong or missing, and labels that are taken for each other.

    A model scores the rows that it has not learned from; the scores become probabilities, label by label; what they,
    the other labels of the row and confused pairs say against a given label ranks it. `comargin.decisions.label_noise`
    has the equations.

    Parameters
    ----------
    dataset : Dataset
        Rows with labels.
    model : str, ModelRecipe or None, default=None
        A name of `model_names`, or a recipe. None: "forest" for dense features and up to 200000 cells, else "m3l".
    params : mapping or None, default=None
        Values of parameters, as in `train`. The others have the middle value of the model's grid.
    folds : int, default=5
        Parts of the rows; each is scored by a model of the others.
    most : int, default=1000
        How many cells to find.
    row_names : sequence or None, default=None
        What the rows are called. None: their numbers from 0.
    n_jobs : int or None, default=None
        Threads. The findings are the same for any number.
    random_state : int, default=0
        Seed of everything.
    verbose : int, default=0
        1 shows progress on standard error.

    Returns
    -------
    Audit
        Cells, pairs and labels.

    Notes
    -----
    Beside the data there are four bytes for every row and label. Where these are more than 20 million cells the labels
    are learned in blocks, a model each.

    Examples
    --------
    >>> from comargin import audit
    >>> from comargin.data import load
    >>> digits = load("digits")
    >>> digits.Y[7, 0] = 0  # row 7 is a digit 7, whose top segment is lit
    >>> audit(digits, most=1).cells()[0]["row"]
    7
    """
    X, Y = checked_rows(dataset)
    (recipe,) = checked_models(_default_model(X, Y) if model is None else model)
    folds, most = whole_number("folds", folds, 2), whole_number("most", most, 1)
    whole_number("random_state", random_state)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: a number of threads, or -1 for all cores")
    if folds > Y.shape[0]:
        raise ValueError(f"folds={folds}, but there are only {Y.shape[0]} rows")
    if row_names is not None and len(row_names) != Y.shape[0]:
        raise ValueError(f"row_names has {len(row_names)} names for {Y.shape[0]} rows")
    if not has_scores(recipe.estimator):
        raise ValueError(f"model={recipe.name!r} has neither decision_function nor predict_proba")
    if Y.shape[1] == 1 and not takes_sparse_labels(recipe.estimator):
        raise ValueError(f"model={recipe.name!r} needs at least two labels, the data has one; m3l takes one")
    estimator = _with_middle_values(build(recipe, X, random_state), recipe, X, dict(params or {}))
    Y = sp.csr_array(Y)
    splits = splits_of(folds, X, Y, None, random_state)
    P = np.empty(Y.shape, dtype=np.float32, order="F")
    blocks = row_blocks(Y.shape[1], max(_CELLS_AT_ONCE // Y.shape[0], 1))
    show = Progress(verbose, folds * len(blocks), recipe.name)
    with using(chosen_or(Threads(n_jobs))):
        for labels in blocks:
            Y_block = Y[:, labels]
            given = Y_block if takes_sparse_labels(recipe.estimator) else Y_block.toarray()
            _, scores, rows = cross_fit(estimator, X, given, Y_block, splits, {}, n_jobs, Memory(), show)
            P[rows, labels] = LabelCalibrator().fit(scores, Y_block[rows]).probabilities(scores)
    return Audit(find_label_issues(P, Y, most), tuple(dataset.label_names), recipe.name, row_names)


def _default_model(X: Any, Y: Any) -> str:
    return "forest" if "forest" in suited(Y.shape[0], Y.shape[1], isinstance(X, list) or sp.issparse(X)) else "m3l"


def _with_middle_values(estimator: Any, recipe: ModelRecipe, X: Any, params: dict[str, Any]) -> Any:
    """The given parameters, and the middle value of the grid for others."""
    taken, prefix = {full_name(estimator, name, "params") for name in params}, prefix_of(estimator)
    open_values = {name: values for name, values in recipe.grid if prefix + name not in taken}
    if any(hasattr(values, "of") for values in open_values.values()):
        features = estimator[:-1].fit_transform(X) if prefix else X
        open_values = {n: values.of(features) if hasattr(values, "of") else values for n, values in open_values.items()}
    middle = {prefix + name: values[(len(values) - 1) // 2] for name, values in open_values.items()}
    return with_named_parameters(estimator.set_params(**middle), params, "params")
