"""``comargin audit``: labels that are probably wrong or missing, and labels that are taken for each other."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ._console import check_target, console_for, print_json, remark, say, table_of
from ._options import AsJson, DataHome, Quiet, Source, Split, reads_a_file
from ._rows import obtain
from ._train import assignments, typed_value

if TYPE_CHECKING:
    from ..data import Dataset

_SUFFIXES = (".csv", ".jsonl")
_SHOWN = 10  # lines of every table on the screen


@reads_a_file
def audit(
    data: Source,
    *,
    output: Annotated[
        Path | None, Option("--output", "-o", help="File for the suspicious labels of rows: .csv or .jsonl.")
    ] = None,
    model: Annotated[
        str | None,
        Option("--model", "-m", help="Whose scores are trusted (default: forest for small dense data, else m3l)."),
    ] = None,
    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=VALUE", help="A parameter, such as C=0.1; may be repeated."),
    ] = None,
    top: Annotated[int, Option(min=1, help="How many labels of rows to find.")] = 1000,
    folds: Annotated[int, Option(min=2, help="Parts of the rows; each is scored by a model of the others.")] = 5,
    id: Annotated[
        str | None, Option(help="Column that names the rows (tables and JSON Lines); else they are numbered from 0.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of everything.")] = 0,
    jobs: Annotated[int, Option(help="Threads, -1 for all cores; the findings are the same for any number.")] = -1,
    split: Split = "all",
    data_home: DataHome = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    reading: dict[str, Any],
) -> None:
    r"""Find labels that are probably wrong or missing.

    Every row is scored by a model that has not learned from it. What the scores, the other labels of the row and
    confused pairs of labels say against a given label is its suspicion, from 0 to 1.

    \b
    comargin audit posts.csv --text body --labels tags -o issues.csv
    comargin audit yeast -m m3l -p C=0.1 --top 200 -o issues.jsonl
    comargin audit posts.jsonl --text body --labels tags --id number --json
    """
    from ..training import audit as find_issues

    if output is not None:
        if output.suffix.lower() not in _SUFFIXES:
            raise ValueError(f"--output must end in {' or '.join(_SUFFIXES)}, got {output.name!r}")
        check_target("--output", output, "issues.csv")
    params = {name: typed_value(text) for name, text in assignments(param, "--param").items()}
    dataset = obtain(data, split, data_home, reading)
    found = find_issues(
        dataset, model, params=params, folds=folds, most=top, n_jobs=jobs, random_state=seed,
        row_names=None if id is None else _row_names(data, id, dataset, reading), verbose=0 if quiet or as_json else 1,
    )  # fmt: skip
    cells, pairs, labels = found.cells(), found.pairs(), found.labels()
    if output is not None:
        _write(output, cells)
    if as_json:
        print_json({"data": dataset.name, "model": found.model, "cells": cells, "pairs": pairs, "labels": labels})
        return
    n_rows = dataset.Y.shape[0]
    say(f"{dataset.name}: {n_rows} rows, {len(labels)} labels; scores of {found.model}")
    _show("The most suspicious labels of rows:", cells)
    if pairs:
        _show("Labels that are taken for each other, in rows that disagree with the scores:", pairs)
    noisiest = sorted(labels, key=lambda one: -one["wrong"] * one["rows"] - one["missing"] * (n_rows - one["rows"]))
    _show("Shares that are estimated to be wrong where the label is given, and missing where not:", noisiest)
    if output is not None:
        remark(f"{output}: {len(cells)} labels of rows", quiet)


def _row_names(data: str, column: str, dataset: Dataset, reading: dict[str, Any]) -> list[Any]:
    """The cells of a column, of a second pass over the file."""
    from ..data import stream
    from ..data.sources import is_file

    if not is_file(data):
        raise ValueError(f"--id {column}: the rows of a known set have no names")
    options = {name: value for name, value in reading.items() if name not in ("drop", "n_labels")}
    if options.get("missing") == "mean":
        options["missing"] = "nan"
    if dataset.feature_names:
        options["feature_names"] = dataset.feature_names
    chunks = list(stream(data, **{"labels": True} | options, id=column))
    if any(chunk.ids is None for chunk in chunks):
        raise ValueError(f"--id {column}: only tables and JSON Lines have columns that name rows")
    return list(chain.from_iterable(chunk.ids or () for chunk in chunks))


def _write(target: Path, cells: Sequence[Mapping[str, Any]]) -> None:
    from ..core.files import AtomicFiles

    with AtomicFiles() as files:
        file = files.open(target)
        if target.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(cell, ensure_ascii=False) + "\n" for cell in cells)
        else:
            writer = csv.DictWriter(file, list(cells[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(cells)


def _show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The first rows as a table: numbers with three digits, nothing for None."""
    from rich.text import Text

    n_left = 1 + max(k for k, value in enumerate(rows[0].values()) if k == 0 or isinstance(value, str))
    table = table_of(*(name.replace("_", " ") for name in rows[0]), n_left=n_left)
    for row in rows[:_SHOWN]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    say("")
    say(title)
    console_for().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
