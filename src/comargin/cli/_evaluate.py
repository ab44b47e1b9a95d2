"""``comargin evaluate``: how well a tagger does on labelled rows."""

from __future__ import annotations

import csv
import enum
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ._console import AsJson, Quiet, console_for, print_json, remark, say
from ._measures import better, labels_table, measures_table
from ._reading import as_labels, streams_labelled_rows
from ._row_progress import RowProgress
from ._sources import DataHome
from ._tagging import STANDARD, TaggerFile, TestSplit, load_tagger, rows_for
from ._targets import check_target

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    from ..data import Chunk
    from ..training import Tagger

_NUMBERED = re.compile(r"y(0|[1-9][0-9]{0,17})")  # what labels are called in files that do not name them
_SHOWN_NAMES = 5
_LABELS_WIDTH = 72  # columns of a screen that hold the numbers and a name


class SortBy(enum.StrEnum):
    """Columns of the table of labels."""

    LABEL = "label"
    SUPPORT = "support"
    PREDICTED = "predicted"
    PRECISION = "precision"
    RECALL = "recall"
    F1 = "f1"
    AUC = "auc"


@streams_labelled_rows
def evaluate(
    tagger: TaggerFile,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Labelled rows: a file, - for the standard input, or a known set.",
            show_default=False,
        ),
    ],
    *,
    per_label: Annotated[bool, typer.Option("--per-label", help="Show every label too.")] = False,
    sort: Annotated[SortBy, typer.Option(help="Order of the labels, highest first.")] = SortBy.SUPPORT,
    top_k: Annotated[str, typer.Option(help="Depths of the measures at k, separated by commas.")] = "1,3,5",
    to_csv: Annotated[
        str | None,
        typer.Option(
            "--csv", help="Write the measures as CSV, or with --per-label the labels; - is the standard output."
        ),
    ] = None,
    as_json: AsJson = False,
    split: TestSplit = None,
    data_home: DataHome = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Measure a tagger on labelled rows.

    Labels are matched by their names; those of files without names (libsvm,
    xmc) are the tagger's, in order. Labels that the tagger does not know are
    left out of all measures.

    \b
    comargin evaluate tagger.cmg test.csv
    comargin evaluate tagger.cmg test.csv --per-label --sort f1
    comargin evaluate tagger.cmg bibtex --top-k 1,3,5,10 --json
    """
    from ..metrics import evaluate as measured
    from ..metrics import per_label as label_by_label

    if as_json and to_csv == STANDARD:
        raise ValueError("--json and --csv - both print on the standard output: give --csv a file, or leave one out")
    if to_csv not in (None, STANDARD):
        check_target("--csv", Path(to_csv), "measures.csv")
    depths = _depths(top_k)
    model = load_tagger(tagger)
    chunks = _labelled_rows(model, data, reading, split, data_home)
    with RowProgress(quiet) as progress:
        tags, Y_pred, scores = _predicted(model, chunks, progress)
    truth = true_labels(tags, model.label_names, data)
    for words in truth.remarks:
        remark(words, quiet)
    measures = measured(truth.Y, scores, Y_pred, k=depths)
    labels = _sorted(label_by_label(truth.Y, Y_pred, model.label_names, scores), sort)
    if to_csv is not None:
        _write_csv(to_csv, labels if per_label else [_measure(*item) for item in measures.items()])
        if to_csv != STANDARD:
            remark(f"{to_csv}: the {'labels' if per_label else 'measures'}", quiet)
    if as_json:
        print_json(
            {
                "tagger": str(tagger),
                "data": data,
                "n_rows": len(tags),
                "n_labels": len(model.label_names),
                "unknown_labels": truth.unknown,
                "measures": measures,
                "per_label": labels,
            }
        )
    elif to_csv != STANDARD:
        n_rows = max(len(tags), 1)
        summary = (
            f"{data}: {len(tags)} rows, {len(model.label_names)} labels; {truth.Y.nnz / n_rows:.2f} labels per row, "
            f"{Y_pred.nnz / n_rows:.2f} predicted"
        )
        say(summary)
        console = console_for()
        console.print()
        console.print(measures_table(measures))
        if per_label:
            console.print()
            # A narrow terminal breaks lines, which is better than columns without their numbers.
            console_for(wide=console.width < _LABELS_WIDTH).print(labels_table(labels))


def _depths(top_k: str) -> list[int]:
    depths = [depth.strip() for depth in top_k.split(",")]
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", depth) for depth in depths):
        raise ValueError(f"--top-k {top_k!r} must be whole numbers from 1 separated by commas, such as 1,3,5")
    return sorted({int(depth) for depth in depths})


def _labelled_rows(
    tagger: Tagger, data: str, reading: dict[str, Any], split: str | None, data_home: Path | None
) -> Iterator[Chunk]:
    """Rows with labels, which are where they were in training, or where the file says, or called as the tagger's."""
    from ..data.format_table import format_of_suffix

    options = dict(reading)
    labels = options.pop("labels", None)
    formats = (options.get("format"), format_of_suffix(Path(data)))
    is_json = "jsonl" in formats
    if "parquet" in formats:
        options.setdefault("sep", ";")  # lists of labels are lists there, whatever stood between them in training

    def started(place: Any) -> Iterator[Chunk]:
        chunks = rows_for(tagger, data, options, split=split, data_home=data_home, labels=place)
        return chain([next(chunks)], chunks)

    if labels is not None:
        return started(as_labels(labels, is_column=tagger.n_features is None or is_json))
    try:
        return started(True)
    except ValueError as fault:
        # Only a table of features that can be opened again may have columns called as the labels.
        if tagger.n_features is None or is_json or not Path(data).is_file():
            raise
        try:
            return started(tagger.label_names)
        except ValueError:
            raise fault from None


def _predicted(
    tagger: Tagger, chunks: Iterable[Chunk], progress: RowProgress
) -> tuple[list[list[str]], sp.csr_array, np.ndarray | None]:
    """True labels by name, predicted labels and scores of all rows."""
    import numpy as np
    import scipy.sparse as sp

    tags: list[list[str]] = []
    predicted: list[sp.csr_array] = []
    scored: list[np.ndarray] = []
    for chunk in chunks:
        Y, scores = tagger.labels_and_scores(chunk.X)
        tags += chunk.tags or []
        predicted.append(Y)
        if scores is not None:
            scored.append(scores)
        progress.show(len(tags))
    return tags, sp.csr_array(sp.vstack(predicted)), np.concatenate(scored) if scored else None


class _Truth(NamedTuple):
    """True labels in the order of the tagger's, rows of every label that is unknown, and what to say about it."""

    Y: sp.csr_array
    unknown: dict[str, int]
    remarks: list[str]


def true_labels(tags: Sequence[Sequence[str]], label_names: Sequence[str], data: str) -> _Truth:
    from ..core.wording import counted as plural
    from ..core.wording import nearest
    from ..data.text_table import indicator

    counts = Counter(tag for row in tags for tag in row)
    known = set(label_names)
    remarks = []
    place = {tag: tag for tag in counts if tag in known}
    if counts and not place and all(map(_NUMBERED.fullmatch, counts)):
        place = {tag: label_names[int(tag[1:])] for tag in counts if int(tag[1:]) < len(label_names)}
        remarks.append(f"{data}: its labels have no names; they are taken for the tagger's, in order")
    unknown = {tag: n for tag, n in counts.most_common() if tag not in place}
    if unknown and not place:
        first = next(iter(unknown))
        hint = nearest(first, label_names) or f"; it knows {_some(label_names)}"
        raise ValueError(f"{data}: the tagger knows none of the labels ({_some(unknown)}){hint}")
    if unknown:
        n_rows = sum(any(tag in unknown for tag in row) for row in tags)
        words = f"left out of the measures, as the tagger does not know {'it' if len(unknown) == 1 else 'them'}"
        remarks.append(f"{data}: {plural(len(unknown), 'label')} in {plural(n_rows, 'row')} {words}: {_some(unknown)}")
    Y, _ = indicator([[place[tag] for tag in row if tag in place] for row in tags], label_names)
    return _Truth(Y, unknown, remarks)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more


def _sorted(labels: list[dict[str, Any]], by: SortBy) -> list[dict[str, Any]]:
    """Highest first, what is not defined last; names from a to z."""
    if by is SortBy.LABEL:
        return sorted(labels, key=lambda label: str(label["label"]))
    if labels and by not in labels[0]:
        raise ValueError(f"--sort {by}: the tagger has no scores")
    return sorted(labels, key=lambda label: -label[by] if label[by] == label[by] else float("inf"))


def _measure(name: str, value: float) -> dict[str, Any]:
    return {"measure": name, "value": value, "better": better(name)}


def _write_csv(target: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with their keys as heading; a number that is not defined is an empty cell."""
    with _opened(target) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([["" if value != value else value for value in row.values()] for row in rows])


@contextmanager
def _opened(target: str) -> Iterator[IO[str]]:
    from ..core.files import AtomicFiles

    if target == STANDARD:
        yield sys.stdout
        return
    with AtomicFiles() as files:
        yield files.open(Path(target))
