"""Texts with tags: a CSV file (or Parquet table) with one column of texts and one of label lists.

The labels of a file are the tags that occur, sorted, unless the head of the label column lists them: our
writer calls the column ``labels``, and ``labels:a;b;c`` when the names or their order could not be told
from the rows.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from ._source import TextSource
from ._table import csv_records, delimiter_hint

TEXT_COLUMN = "text"
LABELS_COLUMN = "labels"


def is_text_header(names: Sequence[str]) -> bool:
    """Tell whether a CSV header is the one our writer gives texts with tags."""
    return TEXT_COLUMN in names and any(n == LABELS_COLUMN or n.startswith(f"{LABELS_COLUMN}:") for n in names)


def indicator(tags: list[list[str]], names: Sequence[str] | None) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Label matrix of tag lists.

    Parameters
    ----------
    tags : list of list of str
        Distinct tags of every row.
    names : sequence of str or None
        Labels in order; None: those that occur, sorted.

    Returns
    -------
    csr_array of shape (n_rows, n_labels)
        Indicator, int32.
    tuple of str
        Label names.
    """
    order = tuple(names) if names is not None else tuple(sorted({tag for row in tags for tag in row}))
    where = {name: j for j, name in enumerate(order)}
    indices = [sorted(where[tag] for tag in row) for row in tags]
    indptr = np.cumsum([0, *(len(row) for row in indices)], dtype=np.int32)
    flat = np.array([j for row in indices for j in row], dtype=np.int32)
    return sp.csr_array((np.ones(flat.size, dtype=LABEL_DTYPE), flat, indptr), shape=(len(tags), len(order))), order


def read_text_csv(
    path: Path, *, text: str | None, labels: str | None, sep: str, delimiter: str, encoding: str
) -> Dataset:
    """Read a CSV file with a text column and a label-list column.

    Parameters
    ----------
    path : Path
        The file.
    text, labels : str or None
        Names of the two columns; None: ``text``, and ``labels`` or ``labels:...``.
    sep : str
        Between the labels of a cell; blanks around a label do not count.
    delimiter : str
        Between the cells.
    encoding : str
        Text encoding.

    Returns
    -------
    Dataset
        X is the list of texts, Y a CSR indicator.
    """
    with TextSource(path, encoding) as source:
        records = csv_records(source, source.lines(), 1, delimiter)
        _, header = next(records, (1, []))
        at_text = _find(path, header, text, TEXT_COLUMN, "text", delimiter)
        at_labels = _find(path, header, labels, LABELS_COLUMN, "labels", delimiter)
        listed = header[at_labels].removeprefix(f"{LABELS_COLUMN}:") if labels is None else header[at_labels]
        names = _split(listed, sep) if listed != header[at_labels] else None
        known = None if names is None else set(names)
        texts: list[str] = []
        tags: list[list[str]] = []
        for line, cells in records:
            if not cells:
                continue
            if len(cells) != len(header):
                raise source.fail(f"has {len(cells)} cells, the header {len(header)}", line)
            row = list(dict.fromkeys(_split(cells[at_labels], sep)))
            if known is not None and not known.issuperset(row):
                stray = next(tag for tag in row if tag not in known)
                raise source.fail(f"label {stray!r} is not one of those the header lists", line)
            texts.append(cells[at_text])
            tags.append(row)
        if not texts:
            raise source.fail("has no rows")
    return text_dataset(path, texts, tags, names)


def text_dataset(path: Path, texts: list[str], tags: list[list[str]], names: Sequence[str] | None) -> Dataset:
    """Texts and tag lists as a data set; DataFormatError when there is no label at all."""
    Y, order = indicator(tags, names)
    if not order:
        raise DataFormatError(path, "no row has a label")
    if len(set(order)) < len(order):
        raise DataFormatError(path, "the header lists a label twice", 1)
    return Dataset(texts, Y, (), order, "")


def _split(cell: str, sep: str) -> list[str]:
    return [tag for part in cell.split(sep) if (tag := part.strip())]


def _find(path: Path, header: Sequence[str], wanted: str | None, default: str, argument: str, delimiter: str) -> int:
    name = default if wanted is None else wanted
    found = [j for j, head in enumerate(header) if head == name]
    if wanted is None and argument == "labels":
        found = found or [j for j, head in enumerate(header) if head.startswith(f"{default}:")]
    if len(found) == 1:
        return found[0]
    how_many = "no column" if not found else f"{len(found)} columns"
    reason = f"{how_many} called {name!r} in the header ({', '.join(header)[:200]}); say {argument}="
    raise DataFormatError(path, reason + delimiter_hint(header, delimiter), 1)


def tag_lists(dataset: Dataset) -> list[list[str]]:
    """Names of the labels of every row."""
    Y = sp.csr_array(dataset.Y)
    names = dataset.label_names
    return [[names[j] for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]]] for i in range(Y.shape[0])]


def names_follow_from(tags: Iterable[list[str]], names: Sequence[str]) -> bool:
    """Tell whether reading the tags alone gives the label names back, in order."""
    return tuple(sorted({tag for row in tags for tag in row})) == tuple(names)


def write_text_csv(dataset: Dataset, file: IO[str], *, sep: str, delimiter: str) -> None:
    """Write texts with tags as CSV.

    Parameters
    ----------
    dataset : Dataset
        What to write, checked; X is a list of texts.
    file : text file
        Where to write.
    sep : str
        Between labels; a label name must not contain it.
    delimiter : str
        Between cells.
    """
    for name in dataset.label_names:
        if sep in name or name != name.strip() or not name:
            raise ValueError(
                f"dataset: label {name!r} is empty, has blanks around it or contains sep={sep!r}: "
                "it could not be read back. Choose another sep= or format="
            )
    tags = tag_lists(dataset)
    head = LABELS_COLUMN
    if not names_follow_from(tags, dataset.label_names):
        head += ":" + sep.join(dataset.label_names)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow([TEXT_COLUMN, head])
    writer.writerows([text, sep.join(row)] for text, row in zip(dataset.X, tags, strict=True))
