"""One page about a fitted model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..core.files import AtomicFiles
from ..core.indicator import check_labels, with_unknown
from ..core.row_blocks import take_rows
from ..core.wording import counted
from ..graphs import LabelGraph, cosine_affinity, smoothed_correlation
from . import _sections
from ._assessment import Assessment, assess, confused_pairs
from ._page import Section, escaped, page
from .anatomy import Anatomy, linear_weights, names_of_features, take_apart
from .label_figures import strongest_part
from .theme import BLUE, VERMILLION, graph_objects, number

if TYPE_CHECKING:
    from ..core.explanation import Explanation

# Limits of the size of the page; the most frequent labels and pairs are shown.
_MOST_LABELS = 1000
_MOST_PAIRS = 20_000
_ROWS_EXPLAINED, _TERMS = 8, 6


def model_report(
    model: Any,
    dataset: Any = None,
    *,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    meta: Mapping[str, Any] | None = None,
    title: str | None = None,
) -> str:
    """Write one page about a fitted model: measures, labels one by one, features, training and certificate.

    Sections appear as far as model and data allow: measures, the label graph, precision, recall and F1 of the labels,
    one label in detail (curves over the cut, scores, features, confusions), confused pairs of labels, why some rows
    have their tags, the strongest features of linear models, scores, probabilities, the promise that label sets keep,
    the members of an `AutoClassifier`, how the model was trained with its certificate, convergence.

    Parameters
    ----------
    model : estimator
        A fitted multi-label classifier: one of ours or any of scikit-learn's interface, also in a `Pipeline`, a
        search, a `ThresholdClassifierCV` or a `OneVsRestClassifier`.
    dataset : Dataset, (X, Y) or None, default=None
        Labelled rows, best those the model has not seen, for everything that is measured; X as the model takes it,
        e.g. texts. Without them the page shows what the model itself holds.
    label_names : sequence of str or None, default=None
        Names of the labels; those of the dataset, else ``label_0``, ``label_1``, ..., when None.
    feature_names : sequence of str or None, default=None
        Names of the columns of X; those of the dataset when None. Transformers of a pipeline, such as
        `TfidfVectorizer`, name their outputs themselves.
    meta : mapping or None, default=None
        More facts about the training, e.g. ``{"data": "tags.csv", "fingerprint": "9f3c..."}``; values may
        be mappings themselves.
    title : str or None, default=None
        Title of the page.

    Returns
    -------
    page : str
        HTML with everything in it (about 5 MB, most of it plotly.js): it opens offline, and loads nothing. The same
        model and rows give the same page.

    Notes
    -----
    All names are shown as they are, never read as markup, and the page's security policy lets no script run but its
    own two. With more than 1000 labels the tables show the most frequent ones.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> from comargin.report import model_report
    >>> X, Y = [[1.0, 0.2], [-1.0, 0.4], [0.3, -1.0], [0.9, 0.1]], [[1, 0], [0, 1], [1, 1], [1, 0]]
    >>> page = model_report(M3LClassifier().fit(X, Y), (X, Y), label_names=["sea", "sky"], title="Beaches")
    >>> "<h1>Beaches</h1>" in page
    True
    """
    graph_objects()  # says how to install plotly before any work is done
    if not hasattr(model, "predict"):
        raise ValueError(f"model must be a fitted classifier with predict, got a {type(model).__name__}")
    if meta is not None and not isinstance(meta, Mapping):
        raise ValueError(f"meta must be a mapping or None, got a {type(meta).__name__}")
    anatomy = take_apart(model)
    if not hasattr(anatomy.classifier, "classes_"):
        name = type(anatomy.classifier).__name__
        raise ValueError(f"model must be fitted: {name} has no classes_, which a fitted classifier has")
    rows = None if dataset is None else _rows_of(dataset)
    names = _label_names(anatomy, rows, getattr(dataset, "label_names", None) if label_names is None else label_names)
    if feature_names is None:
        feature_names = getattr(dataset, "feature_names", None)
    assessment = None if rows is None else assess(anatomy, *rows, names)
    support = np.zeros(len(names)) if assessment is None else np.array([one["support"] for one in assessment.labels])
    order = np.sort(np.argsort(-support, kind="stable")[:_MOST_LABELS])

    explained = {} if rows is None or assessment is None else _explained(model, rows[0], assessment, feature_names)
    sections, data = _data_sections(anatomy, assessment, names, order, feature_names, explained)
    training = _sections.training_section(anatomy, _data_facts(dataset, assessment), meta or {})
    others = (_sections.members_section(anatomy), training, _sections.convergence_section(anatomy))
    sections += [section for section in others if section is not None]
    shown_title = f"{type(anatomy.classifier).__name__} report" if title is None else title
    choices = [names[k] for k in order] if "labels" in data else []
    return page(shown_title, _lead(anatomy, dataset, assessment), sections, data, choices)


def save_report(report: str, path: str | os.PathLike[str]) -> Path:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    report : str
        What `model_report` returned.
    path : str or path-like
        File to write; it must end in ``.html``.

    Examples
    --------
    >>> import tempfile
    >>> from comargin import M3LClassifier
    >>> from comargin.report import model_report, save_report
    >>> model = M3LClassifier().fit([[1.0, 0.2], [-1.0, 0.4], [0.3, -1.0]], [[1, 0], [0, 1], [1, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_report(model_report(model), f"{folder}/tagger.html").name
    'tagger.html'
    """
    target = Path(path)
    if not isinstance(report, str):
        raise ValueError(f"report must be the page that model_report returns, got a {type(report).__name__}")
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {target.name!r}")
    with AtomicFiles() as files:
        files.open(target).write(report)
    return target


def _rows_of(dataset: Any) -> tuple[Any, Any]:
    if hasattr(dataset, "X") and hasattr(dataset, "Y"):
        return dataset.X, dataset.Y
    if isinstance(dataset, tuple) and len(dataset) == 2:
        return dataset
    raise ValueError(f"dataset must be a Dataset, a pair (X, Y) or None, got a {type(dataset).__name__}")


def _label_names(anatomy: Anatomy, rows: tuple[Any, Any] | None, given: Sequence[str] | None) -> tuple[str, ...]:
    """One distinct name per label, checked as those of a label graph are."""
    if rows is not None:
        n_samples, n_labels = check_labels(rows[1], "dataset.Y").shape
        if n_samples == 0 or n_labels == 0:
            raise ValueError("dataset must have at least one row and one label")
    else:
        weights = linear_weights(anatomy.classifier)
        n_labels = len(anatomy.classifier.classes_ if weights is None else weights)
    return LabelGraph(sp.csr_array((n_labels, n_labels)), () if given is None else tuple(given)).label_names


def _data_sections(
    anatomy: Anatomy,
    assessment: Assessment | None,
    names: tuple[str, ...],
    order: np.ndarray,
    given_features: Sequence[str] | None,
    explained: dict[int, list[Explanation]],
) -> tuple[list[Section], dict[str, Any]]:
    """Sections about measures, labels and features, and the data that the script of the page needs for them."""
    weights = linear_weights(anatomy.classifier)
    if weights is not None and len(weights) != len(names):
        weights = None  # not one row per label, e.g. weights of attributes behind classes
    features = [] if weights is None else names_of_features(anatomy, given_features, weights.shape[1])
    place = {int(k): position for position, k in enumerate(order)}
    data: dict[str, Any] = {"first": None, "signs": [BLUE, VERMILLION]}
    sections: list[Section] = []
    frequencies = None
    if assessment is not None:
        sections.append(_sections.summary_section(assessment))
        n_known = np.maximum(assessment.known.sum(axis=0), 1)
        frequencies = np.array([label["support"] for label in assessment.labels]) / n_known
    graph, source = _graph_of(anatomy, assessment, names)
    if graph is not None:
        section, data["graph"] = _sections.graph_section(graph, strongest_part(graph), frequencies, source, place)
        sections.append(section)
    if assessment is not None:
        sections.append(_sections.labels_section(assessment, order))
        pairs = confused_pairs(assessment.Y, sp.csr_array(assessment.Y_pred.multiply(assessment.known)), _MOST_PAIRS)
        section, data["labels"], data["first"] = _sections.one_label_section(
            assessment, names, order, pairs, weights, features
        )
        sections.append(section)
        if pairs:
            sections.append(_sections.pairs_section(pairs, names, place))
    if explained and assessment is not None:
        sections.append(_sections.explanations_section(explained, assessment, names, place))
    if weights is not None:
        sections.append(_sections.features_section(weights, features, names, order))
    if assessment is not None and assessment.scores is not None:
        sections.append(_sections.scores_section(assessment))
    if assessment is not None and assessment.probabilities is not None:
        sections.append(_sections.probabilities_section(assessment))
    promise = anatomy.first("promise_")
    if promise is not None:
        sections.append(_sections.promise_section(promise))
    return sections, data


def _explained(
    model: Any, X: Any, assessment: Assessment, feature_names: Sequence[str] | None
) -> dict[int, list[Explanation]]:
    """Explanations of the first rows with predicted labels, by their numbers; empty if the model gives none."""
    from ..core.explanation import NoExplanationError, explain

    rows = np.flatnonzero(np.diff(assessment.Y_pred.indptr))[:_ROWS_EXPLAINED]
    if not len(rows):
        return {}
    labels = assessment.Y_pred[rows]
    try:
        found = explain(model, take_rows(X, rows), top=_TERMS, labels=labels, feature_names=feature_names)
    except NoExplanationError:
        return {}
    return dict(zip(rows.tolist(), found, strict=True))


def _graph_of(anatomy: Anatomy, assessment: Assessment | None, names: tuple[str, ...]) -> tuple[LabelGraph | None, str]:
    """The graph the model learned or used, else the correlations of the labels of the rows."""
    learned = anatomy.first("label_graph_")
    if learned is not None and learned.n_labels == len(names) and len(learned.edge_weights):
        return LabelGraph(learned.weights, names), "The graph of the model."
    if assessment is None or len(names) < 2:
        return None, ""
    truth = with_unknown(assessment.Y, None if assessment.known.all() else assessment.known)
    if len(names) > _MOST_LABELS:  # correlations of all pairs do not fit into memory
        return cosine_affinity(truth, label_names=names), "Cosines between the true labels of these rows."
    return smoothed_correlation(truth, label_names=names), "Correlations of the true labels of these rows."


def _lead(anatomy: Anatomy, dataset: Any, assessment: Assessment | None) -> str:
    chain = " > ".join(type(layer).__name__ for layer in anatomy.layers)
    if assessment is None:
        about = "without labelled rows: what the model itself holds"
    else:
        n_rows, n_labels = assessment.Y.shape
        name = getattr(dataset, "name", "")
        about = f"on {counted(n_rows, 'row')} with {counted(n_labels, 'label')}{f' of {name}' if name else ''}"
    return f'<p class="lead">{escaped(chain)}, {escaped(about)}.</p>'


def _data_facts(dataset: Any, assessment: Assessment | None) -> list[tuple[str, str]]:
    if assessment is None:
        return []
    per_row = np.diff(assessment.Y.indptr)
    name = str(getattr(dataset, "name", ""))
    return ([("name", name)] if name else []) + [
        ("rows", str(assessment.Y.shape[0])),
        ("labels", str(assessment.Y.shape[1])),
        *([] if assessment.known.all() else [("known cells", f"{assessment.known.mean():.1%}")]),
        ("labels per row", number(per_row.mean())),
        ("labels per row, predicted", number(np.diff(assessment.Y_pred.indptr).mean())),
        ("rows without a label", str(int(np.count_nonzero(per_row == 0)))),
    ]
