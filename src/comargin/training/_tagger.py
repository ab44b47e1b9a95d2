"""A fitted model together with what it takes to use it: names of labels and features, and how files are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from ..core.explanation import Explanation, explain
from ..core.indicator import known_share
from ..core.validation import dense_if_needed, has_scores, learner_of
from ..core.wording import nearest
from ..data import Chunk, Dataset, stream
from ..data.labels import tags_of
from ..data.matching import matched
from ..decisions import DecisionClassifierCV, RiskController
from ..decisions.predictions import predictions
from ..metrics import evaluate, scores_of
from ..persistence import DEFAULT_MAX_SIZE, ModelFileError, inspect, load, save

_META = "tagger"


@dataclass(frozen=True, eq=False)
class Tagger:
    """A fitted model with the names of its labels and features.

    Attributes
    ----------
    model : estimator
        Fitted on an indicator of the labels, with everything from the rows of a file (texts or numbers) to label sets.
    label_names : tuple of str
        Names of its labels.
    n_features : int or None
        Number of columns it takes; None if it takes texts.
    feature_names : tuple of str
        Names of these columns; empty for texts, and where they have none.
    reading : dict
        How the training file was read, and new files are to be: ``text`` (name of the text column), ``labels`` (name of
        the column of label lists, or names or number of columns), ``sep``, ``missing``, as
        far as they were given.
    facts : dict
        How it was trained: data, parameters, measures, versions.
    """

    model: Any
    label_names: tuple[str, ...]
    n_features: int | None = None
    feature_names: tuple[str, ...] = ()
    reading: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        takes = "texts" if self.n_features is None else f"{self.n_features} features"
        return f"Tagger({type(self.model).__name__}: {takes}, {len(self.label_names)} labels)"

    def predict(self, X: Any, aim: Any = None) -> sp.csr_array:
        """Labels of rows.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.
        aim : str, array-like or None, default=None
            The measure that label sets are made for, as in `comargin.decisions.DecisionClassifierCV`; None: that of the
            training.

        Returns
        -------
        csr_array of shape (n_rows, n_labels)
            Indicator.
        """
        if aim is not None:
            self._check_has_probabilities()
        if _n_rows(X) == 0:
            return sp.csr_array((0, len(self.label_names)), dtype=np.int64)
        predicted = self.model.predict(X) if aim is None else self.model.predict(X, aim=aim)
        return sp.csr_array(predicted[:, None] if predicted.ndim == 1 else predicted)

    def tags(self, X: Any, aim: Any = None) -> list[list[str]]:
        """Names of the labels of rows.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.
        aim : str, array-like or None, default=None
            As in `predict`.

        Returns
        -------
        list of list of str
            For every row the names of its labels.
        """
        return tags_of(self.predict(X, aim), self.label_names)

    def scores(self, X: Any) -> np.ndarray | None:
        """Scores of all labels; higher means more likely.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.

        Returns
        -------
        ndarray of shape (n_rows, n_labels) or None
            None for a model that has none.
        """
        if not has_scores(self.model):
            return None
        if _n_rows(X) == 0:
            return np.empty((0, len(self.label_names)))
        return scores_of(self.model, X, n_labels=len(self.label_names))

    @property
    def has_probabilities(self) -> bool:
        """Whether the model decides by calibrated probabilities, so that aims can be named."""
        return isinstance(learner_of(self.model), DecisionClassifierCV)

    @property
    def promise(self) -> RiskController | None:
        """What its label sets promise, if anything."""
        return getattr(learner_of(self.model), "promise_", None)

    def probabilities(self, X: Any) -> np.ndarray:
        """Calibrated probabilities of all labels.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            Probability that each label is on; a ValueError for a model that has none.
        """
        self._check_has_probabilities()
        return self.model.predict_proba(X) if _n_rows(X) else np.empty((0, len(self.label_names)))

    def labels_and_scores(
        self, X: Any, aim: Any = None, *, probabilities: bool = False
    ) -> tuple[sp.csr_array, np.ndarray | None]:
        """Labels and scores of rows, from one pass over the rows.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.
        aim : str, array-like or None, default=None
            As in `predict`.
        probabilities : bool, default=False
            Return calibrated probabilities in place of scores.

        Returns
        -------
        csr_array of shape (n_rows, n_labels)
            What `predict` returns.
        ndarray of shape (n_rows, n_labels) or None
            What `scores` returns, or `probabilities`.
        """
        if aim is not None or probabilities:
            self._check_has_probabilities()
        if _n_rows(X) == 0:
            return self.predict(X), self.scores(X)
        found = predictions(self.model, X, len(self.label_names), aim)
        return sp.csr_array(found.labels), found.probabilities if probabilities else found.scores

    def _check_has_probabilities(self) -> None:
        if not self.has_probabilities:
            raise ValueError(
                'the tagger has no calibrated probabilities; train with thresholds="aim" (the default) to have them, '
                "and to name an aim"
            )

    def measure(self, dataset: Dataset, show: Callable[[str], object] = lambda text: None) -> None:
        """Measure on labelled rows, and note name, number of rows and all measures in ``facts``.

        Parameters
        ----------
        dataset : Dataset
            Columns and labels are found by name where both have names.
        show : callable
            Called with a remark on labels that the tagger does not know; they are left out of the measures.
        """
        X, Y = matched(dataset, self.n_features, self.feature_names, self.label_names, show)
        calibrated = self.has_probabilities
        predicted, scores = self.labels_and_scores(dense_if_needed(X, self.model), probabilities=calibrated)
        depths = [k for k in (1, 3, 5) if k <= Y.shape[1]]
        found = evaluate(Y, scores, predicted, k=depths, probabilities=scores if calibrated else None)
        measures = {name: float(value) if value == value else None for name, value in found.items()}
        rows = {"name": dataset.name, "rows": Y.shape[0]} | ({"known": share} if (share := known_share(Y)) else {})
        self.facts.update(test_data=rows, test_measures=measures)
        if self.promise is not None:
            self.facts["test_promise"] = self.promise.measured(Y, predicted)

    def explain(self, X: Any, *, top: int = 5, labels: Any = None) -> list[list[Explanation]]:
        """Say why labels have their scores; see `comargin.explain`.

        Parameters
        ----------
        X : ndarray, sparse matrix or list of str
            Features, or texts.
        top : int, default=5
            Contributions of each score that are named.
        labels : sequence of str, indicator of shape (n_rows, n_labels) or None, default=None
            Labels to explain, the same of every row or of each its own. None: the predicted ones.

        Returns
        -------
        list of list of Explanation
            For every row one explanation per label, with the names of labels and features.
        """
        if labels is None:
            labels = self.predict(X)
        elif np.ndim(labels) < 2 and not sp.issparse(labels):
            for name in labels:
                if name not in self.label_names:
                    raise ValueError(f"labels: there is no label {name!r}{nearest(str(name), self.label_names)}")
            labels = [self.label_names.index(name) for name in labels]
        if _n_rows(X) == 0:
            return []
        found = explain(self.model, X, top=top, labels=labels, feature_names=self.feature_names)
        return [[one.with_names(self.label_names) for one in row] for row in found]

    def rows(self, source: str | Path | IO[bytes], *, labels: Any = None, **options: Any) -> Iterator[Chunk]:
        """Rows of a file of any length as the model takes them: columns are found by name.

        Parameters
        ----------
        source : str, Path or binary stream
            The file; "-" is the standard input.
        labels : bool, str, Path, int, sequence of str or None
            As in `comargin.data.stream`; True reads them from where they stood in the training file, or else from
            where the file itself says they are.
        **options : Any
            Other arguments of `comargin.data.stream`; they default to those of the training file.

        Yields
        ------
        Chunk
            Features or texts of some rows.
        """
        if self.n_features is None:
            options.setdefault("text", self.reading.get("text", "text"))
        else:
            options |= {"feature_names": self.feature_names, "n_features": self.n_features}
            options.setdefault("missing", self.reading.get("missing", "error"))
        if labels is True:
            labels = self.reading.get("labels", True)
        if labels is not None and "sep" in self.reading:
            options.setdefault("sep", self.reading["sep"])
        return stream(source, labels=labels, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tagger to a file; see `comargin.save`.

        Parameters
        ----------
        path : str or path-like
            The file, ``.cmg`` by custom.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        own = {
            "n_features": self.n_features,
            "feature_names": list(self.feature_names),
            "reading": self.reading,
            "facts": self.facts,
        }
        return save(self.model, path, meta={"label_names": list(self.label_names), _META: own})

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, max_size: int = DEFAULT_MAX_SIZE, expect_hash: str | None = None
    ) -> Tagger:
        """Read a file that `save` has written; any saved classifier becomes a tagger.

        Parameters
        ----------
        path : str or path-like
            The file.
        max_size : int, default=2**32
            Most bytes of memory for the arrays of the model; see `comargin.load`.
        expect_hash : str or None, default=None
            The SHA-256 that the file must have; see `comargin.load`.

        Returns
        -------
        Tagger
            With the names the file has; labels without names are ``y0``, ``y1``, ...
        """
        model, meta = load(path, max_size=max_size, expect_hash=expect_hash), inspect(path)["meta"] or {}
        if not hasattr(model, "predict") or not hasattr(model, "classes_"):
            raise ModelFileError(Path(path), f"holds a {type(model).__name__}, not a fitted classifier")
        own = meta.get(_META, {})
        if not isinstance(own, dict):
            raise ModelFileError(Path(path), "what it says about the tagger is no object")
        names = meta.get("label_names", [f"y{k}" for k in range(len(model.classes_))])
        facts, reading = own.get("facts", {}), own.get("reading", {})
        takes = getattr(model, "n_features_in_", None)  # None: texts
        n_features = own.get("n_features", takes)
        feature_names = own.get("feature_names", list(getattr(model, "feature_names_in_", ())))
        right = (
            _are_names(names)
            and len(names) == len(model.classes_)
            and _are_names(feature_names)
            and type(n_features) is type(takes)
            and n_features == takes
            and len(feature_names) in (0, n_features)
            and isinstance(facts, dict)
            and isinstance(reading, dict)
            and all(
                isinstance(value, str) or (name == "labels" and _are_labels(value)) for name, value in reading.items()
            )
        )
        if not right:
            raise ModelFileError(Path(path), "names of labels or features do not belong to the model")
        return cls(model, tuple(names), n_features, tuple(feature_names), reading, facts)


def _n_rows(X: Any) -> int:
    return len(X) if isinstance(X, list) else int(X.shape[0])


def _are_labels(value: Any) -> bool:
    return type(value) is int or _are_names(value)


def _are_names(names: Any) -> bool:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    # Half a surrogate pair can be neither shown nor written.
    return len(set(names)) == len(names) and not any("\ud800" <= sign <= "\udfff" for sign in "".join(names))
