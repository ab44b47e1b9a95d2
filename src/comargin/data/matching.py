"""Rows of a data set as a fitted model takes them: its columns, and its labels, by name where both have names."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import scipy.sparse as sp

from ..core.indicator import with_unknown
from ..core.wording import counted, nearest
from ._dataset import Dataset
from .chunks import Wanted, match_names
from .labels import indicator, tags_of, unknown_of
from .sparse_text import generated_names

_NUMBERED = re.compile(r"y(0|[1-9][0-9]{0,17})")  # what labels are called in files that do not name them
_SHOWN_NAMES = 5


def matched(
    dataset: Dataset,
    n_features: int | None,
    feature_names: tuple[str, ...],
    label_names: Sequence[str],
    show: Callable[[str], object] = lambda text: None,
) -> tuple[Any, sp.csr_array]:
    """X and Y of a data set in the order of these columns and labels; see `matched_columns` and `true_labels`."""
    X = matched_columns(dataset, n_features, feature_names)
    tags, unknown = tags_of(dataset.Y, dataset.label_names), unknown_of(dataset.Y, dataset.label_names)
    return X, true_labels(tags, label_names, dataset.name, show, unknown=unknown)[0]


def matched_columns(dataset: Dataset, n_features: int | None, feature_names: tuple[str, ...]) -> Any:
    """Texts (``n_features`` None), or these columns of a data set, in order."""
    X: Any = dataset.X
    names = dataset.feature_names
    is_text = isinstance(X, list)
    if is_text != (n_features is None):
        takes = "texts" if n_features is None else f"{n_features} features"
        raise ValueError(f"{dataset.name} has {'texts' if is_text else 'features'}, and the tagger takes {takes}")
    if is_text:
        return X
    if names != feature_names and feature_names and names != generated_names("x", len(names)):
        X = X[:, match_names(dataset.name, names, feature_names)]
    Wanted(n_features=n_features).check_count(dataset.name, X.shape[1])
    return X


def true_labels(
    tags: Sequence[Sequence[str]],
    label_names: Sequence[str],
    data: str,
    show: Callable[[str], object] = lambda _: None,
    unknown: Sequence[Sequence[str] | None] = (),
) -> tuple[sp.csr_array, dict[str, int]]:
    """True labels in the order of the tagger's, and the number of rows with every label that it does not know.

    ``unknown`` are names of the labels of every row whose truth is not known, None for all: NaN stands there.
    ``show`` is called with remarks on labels that are left out, or have no names.
    """
    counts = Counter(tag for row in tags for tag in row)
    known = set(label_names)
    place = {tag: tag for tag in counts if tag in known}
    are_numbered = bool(counts) and not place and all(map(_NUMBERED.fullmatch, counts))
    if are_numbered:
        place = {tag: label_names[int(tag[1:])] for tag in counts if int(tag[1:]) < len(label_names)}
    strange = {tag: n for tag, n in counts.most_common() if tag not in place}
    if strange and not place:
        hint = nearest(next(iter(strange)), label_names) or f"; it knows {_some(label_names)}"
        raise ValueError(f"{data}: the tagger knows none of the labels ({_some(strange)}){hint}")
    if are_numbered:
        show(f"{data}: its labels have no names; they are taken for the tagger's, in order")
    if strange:
        n_rows = sum(any(tag in strange for tag in row) for row in tags)
        words = f"left out of the measures, as the tagger does not know {'it' if len(strange) == 1 else 'them'}"
        labels, rows = counted(len(strange), "label"), counted(n_rows, "row")
        show(f"{data}: {labels} in {rows} {words}: {_some(strange)}")
    Y, _ = indicator([[place[tag] for tag in row if tag in place] for row in tags], label_names)
    if any(row is None or row for row in unknown):
        names = {name: name for name in label_names}
        names |= {f"y{j}": name for j, name in enumerate(label_names)} if are_numbered else {}
        hidden = [list(label_names) if row is None else [names[tag] for tag in row if tag in names] for row in unknown]
        Y = with_unknown(Y, indicator(hidden, label_names)[0].toarray() == 0)
    return Y, strange


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
