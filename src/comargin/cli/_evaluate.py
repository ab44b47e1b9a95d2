"""``comargin evaluate``: how well a tagger does on labelled rows."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ._console import (
    better,
    check_target,
    console_for,
    labels_table,
    measures_table,
    print_json,
    remark,
    row_progress,
    say,
)
from ._options import Aim, AsJson, DataHome, Quiet, TaggerFile, TestSplit, as_aim, streams_labelled_rows
from ._rows import STANDARD, labelled_rows, load_tagger

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    from ..data import Chunk
    from ..training import Tagger

_LABELS_WIDTH = 72  # columns of a screen that hold the numbers and a name


# Columns of the table of labels.
SortBy = StrEnum("SortBy", "LABEL SUPPORT PREDICTED PRECISION RECALL F1 AUC")


@streams_labelled_rows
def evaluate(
    tagger: TaggerFile,
    data: Annotated[
        str, Argument(metavar="DATA", help="Labelled rows: a file, - for the standard input, or a known set.")
    ],
    *,
    per_label: Annotated[bool, Option("--per-label", help="Show every label too.")] = False,
    sort: Annotated[SortBy, Option(help="Order of the labels, highest first.")] = SortBy.SUPPORT,
    top_k: Annotated[str, Option(help="Depths of the measures at k, separated by commas.")] = "1,3,5",
    to_csv: Annotated[
        str | None,
        Option("--csv", help="Write the measures as CSV, or with --per-label the labels; - is the standard output."),
    ] = None,
    aim: Aim = None,
    as_json: AsJson = False,
    split: TestSplit = None,
    data_home: DataHome = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Measure a tagger on labelled rows.

    Labels are matched by their names; those of files without names (libsvm, xmc) are the tagger's, in order. Labels
    that the tagger does not know are left out of all measures.

    \b
    comargin evaluate tagger.cmg test.csv
    comargin evaluate tagger.cmg test.csv --per-label --sort f1
    comargin evaluate tagger.cmg bibtex --top-k 1,3,5,10 --json
    """
    from ..core.indicator import known_share, split_unknown
    from ..data.matching import true_labels
    from ..metrics import evaluate as measured
    from ..metrics import per_label as label_by_label

    if as_json and to_csv == STANDARD:
        raise ValueError("--json and --csv - both print on the standard output: give --csv a file, or leave one out")
    if to_csv not in (None, STANDARD):
        check_target("--csv", Path(to_csv), "measures.csv")
    if not re.fullmatch(r"\s*[1-9][0-9]{0,8}\s*(,\s*[1-9][0-9]{0,8}\s*)*", top_k):
        raise ValueError(f"--top-k {top_k!r} must be whole numbers from 1 separated by commas, such as 1,3,5")
    depths = sorted({int(depth) for depth in top_k.split(",")})
    model = load_tagger(tagger)
    if aim is not None and not model.has_probabilities:
        raise ValueError("--aim needs a tagger that was trained without --thresholds")
    chunks = labelled_rows(model, data, reading, split, data_home)
    with row_progress(quiet) as show:
        tags, hidden, Y_pred, scores = _predicted(model, chunks, None if aim is None else as_aim(aim), show)
    Y, unknown = true_labels(tags, model.label_names, data, partial(remark, quiet=quiet), hidden)
    ones, known = split_unknown(Y, "Y")
    measures = measured(Y, scores, Y_pred, k=depths, probabilities=scores if model.has_probabilities else None)
    kept = {} if model.promise is None else model.promise.measured(Y, Y_pred)
    labels = _sorted(label_by_label(Y, Y_pred, model.label_names, scores), sort)
    if to_csv is not None:
        rows = [{"measure": name, "value": value, "better": better(name)} for name, value in measures.items()]
        _write_csv(to_csv, labels if per_label else rows)
        if to_csv != STANDARD:
            remark(f"{to_csv}: the {'labels' if per_label else 'measures'}", quiet)
    if as_json:
        print_json(
            {
                "tagger": str(tagger),
                "data": data,
                "n_rows": len(tags),
                "n_labels": len(model.label_names),
                "n_known": int(Y.shape[0] * Y.shape[1] if known is None else known.sum()),
                "unknown_labels": unknown,
                "measures": measures,
                "promise": kept,
                "per_label": labels,
            }
        )
    elif to_csv != STANDARD:
        per_row = [matrix.nnz / max(len(tags), 1) for matrix in (ones, Y_pred)]
        sizes = f"{len(tags)} rows, {len(model.label_names)} labels"
        say(f"{data}: {sizes}; {per_row[0]:.2f} labels per row, {per_row[1]:.2f} predicted")
        if known is not None:
            say(f"Measured on the known cells: {known_share(Y)}")
        console = console_for()
        console.print()
        console.print(measures_table(measures))
        for promised, value in kept.items():
            say(f"Promised: {promised}. On these rows: {value:.3f}{'' if aim is None else ', by --aim'}")
        if per_label:
            console.print()
            # A narrow terminal breaks long lines rather than dropping numbers.
            console_for(wide=console.width < _LABELS_WIDTH).print(labels_table(labels))


def _predicted(
    tagger: Tagger, chunks: Iterable[Chunk], aim: Any, show: Callable[..., None]
) -> tuple[list[list[str]], list[list[str] | None], sp.csr_array, np.ndarray | None]:
    """True labels and unknown ones by name, predicted labels, and probabilities or else scores, of all rows."""
    import numpy as np
    import scipy.sparse as sp

    tags: list[list[str]] = []
    hidden: list[list[str] | None] = []
    predicted: list[sp.csr_array] = []
    scored: list[np.ndarray] = []
    for chunk in chunks:
        Y, scores = tagger.labels_and_scores(chunk.X, aim, probabilities=tagger.has_probabilities)
        tags += chunk.tags or []
        hidden += chunk.unknown or []
        predicted.append(Y)
        if scores is not None:
            scored.append(scores)
        show(len(tags))
    return tags, hidden, sp.csr_array(sp.vstack(predicted)), np.concatenate(scored) if scored else None


def _sorted(labels: list[dict[str, Any]], by: SortBy) -> list[dict[str, Any]]:
    """Highest first, undefined values last; names from a to z."""
    if by is SortBy.LABEL:
        return sorted(labels, key=lambda label: str(label["label"]))
    if labels and by not in labels[0]:
        raise ValueError(f"--sort {by}: the tagger has no scores")
    return sorted(labels, key=lambda label: -label[by] if label[by] == label[by] else float("inf"))


def _write_csv(target: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with their keys as heading; an undefined number is an empty cell."""
    from ..core.files import AtomicFiles

    with AtomicFiles() as files:
        writer = csv.writer(sys.stdout if target == STANDARD else files.open(Path(target)), lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([["" if value != value else value for value in row.values()] for row in rows])
