"""Labels of all formats: which columns they are, what a cell means, and lists of names against an indicator.

Readers yield labels as numbers (0, 1, and NaN for a missing one that is allowed) or as lists of names. `labelled` and
`settled` are what missing labels mean; `settled` converts the numbers to entries of Y, `indicator` the lists.
"""

import ast
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.indicator import split_unknown, with_unknown
from ..core.wording import counted, nearest, shortened
from ._dataset import LABEL_DTYPE, DataFormatError
from ._numbers import parse_number

TEXT_COLUMN = "text"
LABELS_COLUMN = "labels"
POSITIVE_WORDS = frozenset({"1", "yes", "true", "on", "y", "t", "present", "positive"})
NEGATIVE_WORDS = frozenset({"0", "no", "false", "off", "n", "f", "absent", "negative"})
UNLABELLED = ("drop", "negative", "unknown")
# Lists as Python (also of a set or a tuple) and JSON write them: strings in quotes or whole numbers, between commas.
_OPENED = re.compile(r"""[\[({]\s*+['"]|\[\s*+(?:\]$|-?[0-9]++\s*+[,\]])""")
_ITEM = r"""(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+"|-?(?:0|[1-9][0-9]*+))"""
_LIST = re.compile(rf"[\[({{]\s*+(?:{_ITEM}\s*+(?:,\s*+{_ITEM}\s*+)*+,?\s*+)?[\])}}]")
MISSING_CURE = "; missing= says what to do"
UNLABELLED_CURE = (
    "; unlabelled='negative' takes missing labels as 0, unlabelled='drop' leaves out rows with one, "
    "unlabelled='unknown' counts them nowhere"
)
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})


def label_columns(
    path: Path,
    names: Sequence[str],
    labels: Sequence[str] | int,
    *,
    noun: str = "column",
    origin: str = "",
    line: int | None = None,
) -> list[int]:
    """Columns that are labels, in the order asked for: by name, or a number of first (> 0) or last (< 0) ones.

    Messages name the ``origin`` of the list where it is not ``labels=``.
    """
    fault = ""
    where = {name: j for j, name in enumerate(names)}
    said = origin or "labels="
    if isinstance(labels, int):
        every = list(range(len(names)))
        chosen = every[:labels] if labels > 0 else every[labels:]
        if not 1 <= abs(labels) <= len(names):
            fault = f"{said} says {labels} labels, but there are {len(names)} {noun}s"
    else:
        absent = next((name for name in labels if name not in where), None)
        chosen = [where[name] for name in labels if name in where]
        if absent is not None:
            which = f"label {absent!r} ({origin})" if origin else f"label {absent!r}"
            article = "an" if noun.startswith("a") else "a"
            fault = f"{which} is not {article} {noun} of the file{nearest(absent, names)}"
        elif not chosen or len(set(chosen)) < len(chosen):
            fault = f"{said} names {'a label twice' if chosen else 'no labels'}"
    if fault:
        raise DataFormatError(path, fault, line)
    return chosen


def label_of_cell(cell: str) -> float | None:
    """Number of a cell of a label column: 0, 1, NaN where it is missing, or None: it is no label."""
    word = cell.strip().lower()
    if word in MISSING_WORDS:
        return float("nan")
    value = 1.0 if word in POSITIVE_WORDS else 0.0 if word in NEGATIVE_WORDS else parse_number(word)
    return value if value in (0.0, 1.0) else None


def labelled(labels: Any) -> np.ndarray:
    """Positions of the rows of a part that miss no label; an empty list of labels is a missing one."""
    if isinstance(labels, list):
        return np.flatnonzero(list(map(len, labels)))
    if sp.issparse(labels):
        entries = sp.coo_array(labels)
        missing = entries.row[np.isnan(entries.data)]
    else:
        missing = np.nonzero(np.isnan(labels))[0]
    return np.setdiff1d(np.arange(labels.shape[0]), missing)


def settled(labels: Any, unlabelled: str | None = None) -> Any:
    """Labels of a part, ready to be stacked: numbers as entries of Y, lists without repeats.

    A missing number is off, or NaN if it stays unknown: then Y is float64.
    """
    if isinstance(labels, list):
        return [list(dict.fromkeys(row)) for row in labels]
    values = labels.data if sp.issparse(labels) else labels
    if values.dtype == LABEL_DTYPE:  # of a format that knows no missing labels
        return labels
    missing = np.isnan(values)
    entries = values if unlabelled == "unknown" and missing.any() else np.where(missing, 0, values).astype(LABEL_DTYPE)
    if not sp.issparse(labels):
        return entries
    Y = sp.csr_array((entries, labels.indices, labels.indptr), shape=labels.shape)
    Y.eliminate_zeros()
    return Y


def indicator(tags: list[list[str]], names: Sequence[str] | None) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Int32 indicator and label names of lists of distinct tags; without names, the tags that occur, sorted."""
    order = _occurring(tags) if names is None else tuple(names)
    where = {name: j for j, name in enumerate(order)}
    indices = [sorted(where[tag] for tag in row) for row in tags]
    indptr = np.cumsum([0, *(len(row) for row in indices)], dtype=np.int32)
    flat = np.array([j for row in indices for j in row], dtype=np.int32)
    return sp.csr_array((np.ones(flat.size, dtype=LABEL_DTYPE), flat, indptr), shape=(len(tags), len(order))), order


def with_unknown_rows(Y: sp.csr_array) -> sp.csr_array:
    """An indicator whose rows without a label are unknown."""
    empty = np.diff(Y.indptr) == 0
    return with_unknown(Y, ~np.broadcast_to(empty[:, None], Y.shape)) if empty.any() else Y


def unknown_of(labels: Any, names: Sequence[str]) -> list[list[str] | None]:
    """Names of the unknown labels of every row of a part that is settled; None: all, as in an empty list of labels."""
    if isinstance(labels, list):
        return [None if not row else [] for row in labels]
    known = split_unknown(labels, "Y")[1]
    if known is None:
        return [[] for _ in range(labels.shape[0])]
    return [[names[j] for j in np.flatnonzero(~row).tolist()] for row in known]


def tags_of(Y: np.ndarray | sp.csr_array, names: Sequence[str]) -> list[list[str]]:
    """Names of the known labels of every row of an indicator, which has no stored zeros if it is sparse."""
    rows = sp.csr_array(split_unknown(Y, "Y")[0])
    tags = (names[j] for j in rows.indices.tolist())
    return [list(islice(tags, n)) for n in np.diff(rows.indptr).tolist()]


def split_tags(cell: str, sep: str) -> list[str]:
    """Labels of a cell, without the blanks around them; a list as Python or JSON writes it is one, whatever ``sep`` is.

    A ValueError says what is wrong with a list that is not whole.
    """
    written = cell.strip()
    if _OPENED.match(written):
        return [tag for value in _listed(written) if (tag := str(value).strip())]
    return [tag for part in cell.split(sep) if (tag := part.strip())]


def doubts(Y: Any, names: Sequence[str]) -> list[str]:
    """What looks wrong about labels that were read from lists: a sentence each."""
    found = []
    Y = split_unknown(Y, "Y")[0]
    n_once = int((Y.sum(axis=0) == 1).sum())
    if int(Y.sum(axis=1).max()) < 2:
        found += _unseparated(names)
        if not found and n_once > len(names) / 2:
            found.append(f"{n_once} of {len(names)} labels have one row only: is labels= the right column?")
    for name in names:
        if name.lower() in MISSING_WORDS:
            found.append(f"{name!r} is learned as a label; if it stands for no label, leave the cell empty")
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.casefold(), []).append(name)
    alike = [several for several in spellings.values() if len(several) > 1]
    if alike:
        some = ", ".join(" and ".join(map(repr, several)) for several in alike[:3])
        found.append(f"{counted(len(alike), 'label')} differ in upper and lower case only: {some}")
    if set(names) <= {"0", "1"}:
        found.append(
            "labels are called 0 and 1; a column of 0 and 1 for a label is meant by its number, as in labels=-1"
        )
    return found


def _unseparated(names: Sequence[str]) -> list[str]:
    """Doubt about names that are several in one: a sign takes them apart into parts that are fewer than they are."""
    best, fewest = "", len(names) + 1
    for sign in ";,|/\t ":
        joined = [name for name in names if sign in name]
        parts = {part.strip() for name in joined for part in name.split(sign)}
        if len(joined) > 1 and len(parts) <= min(len(joined), fewest - 1):
            best, fewest = sign, len(parts)
    if not best:
        return []
    n_joined = sum(best in name for name in names)
    where = f"no row has two labels, and {best!r} stands in {n_joined} of their {len(names)} names"
    return [f"{where}: if it stands between labels, say sep={best!r}"]


def _occurring(tags: Iterable[list[str]]) -> tuple[str, ...]:
    return tuple(sorted({tag for row in tags for tag in row}))


def names_follow_from(tags: Iterable[list[str]], names: Sequence[str]) -> bool:
    """Tell whether reading the tags alone gives the label names back, in order."""
    return _occurring(tags) == tuple(names)


def _listed(written: str) -> list[Any]:
    """Items of a list; `json` knows escapes that Python does not, and Python single quotes, sets and tuples."""
    if _LIST.fullmatch(written):
        for parse, text in ((json.loads, written), (ast.literal_eval, f"[{written[1:-1]}]")):
            try:
                return list(parse(text))
            except (ValueError, SyntaxError):
                continue
    cell = shortened(written, 40)
    raise ValueError(f"the labels {cell} start as a list and are none: write ['a', 'b'], or a;b with sep=';'")


def check_separable(argument: str, label_names: Sequence[str], sep: str) -> None:
    """ValueError about the argument when a list of labels could not be taken apart again."""
    for name in label_names:
        if sep in name or name != name.strip() or not name or _OPENED.match(name):
            raise ValueError(
                f"{argument}: label {name!r} is empty, has blanks around it, contains sep={sep!r} or starts as a list: "
                "it could not be read back. Choose another sep= or format="
            )
