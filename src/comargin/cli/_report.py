"""``comargin report``: a page about a tagger."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ._console import check_target, file_size, remark, row_progress, say
from ._options import DataHome, Quiet, TaggerFile, TestSplit, streams_labelled_rows
from ._rows import STANDARD, labelled_rows, load_tagger

if TYPE_CHECKING:
    from ..data import Dataset
    from ..training import Tagger

# Facts of a training that other sections of the page show, or that are too long for a line.
_OMITTED = {
    "parameters",
    "fold_measures",
    "test_measures",
    "objective",
    "dual_objective",
    "duality_gap",
    "lower_bound",
    "trials",
}


@streams_labelled_rows
def report(
    tagger: TaggerFile,
    data: Annotated[
        str | None,
        Argument(
            metavar="DATA", help="Labelled rows to measure it on: a file, - for the standard input, or a known set."
        ),
    ] = None,
    *,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Page to write (default: name of the tagger, .html).")
    ] = None,
    title: Annotated[str | None, Option(help="Title of the page (default: name of the tagger).")] = None,
    split: TestSplit = None,
    data_home: DataHome = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Write a page about a tagger: one HTML file that opens offline.

    With labelled rows it has measures, labels one by one, confusions and scores; best those the tagger was not trained
    on. Without, it shows what the model itself holds: label graph, features, parameters, certificate, convergence.

    \b
    comargin report tagger.cmg
    comargin report tagger.cmg test.csv -o report.html --title "Tags of posts"
    comargin report bibtex.cmg bibtex       # the published test rows
    """
    from ..persistence import inspect
    from ..report import model_report, save_report

    target = tagger.with_suffix(".html") if output is None else output
    if target.suffix.lower() not in (".html", ".htm") and not target.is_dir():
        raise ValueError(f"--output must end in .html, got {target.name!r}")
    check_target("--output", target, "report.html")
    if data is None and (reading or split is not None):
        raise ValueError("--split, and options that say how a file is read, need DATA")
    model = load_tagger(tagger)
    rows = None if data is None else _rows_of(model, data, reading, split, data_home, quiet)
    facts = {name: value for name, value in model.facts.items() if value is not None and name not in _OMITTED}
    page = model_report(
        model.model,
        rows,
        label_names=model.label_names,
        feature_names=model.feature_names or None,
        meta={"tagger": tagger.name, **facts, "trained with": inspect(tagger)["versions"]},
        title=tagger.stem if title is None else title,
    )
    save_report(page, target)
    say(f"{target}: {file_size(target)}")


def _rows_of(
    tagger: Tagger, data: str, reading: dict[str, Any], split: str | None, data_home: Path | None, quiet: bool
) -> Dataset:
    """All rows with the tagger's labels."""
    from ..data import Dataset
    from ..data.chunks import stacked
    from ..data.matching import true_labels

    features: list[Any] = []
    tags: list[list[str]] = []
    hidden: list[list[str] | None] = []
    with row_progress(quiet) as show:
        for chunk in labelled_rows(tagger, data, reading, split, data_home):
            features.append(chunk.X)
            tags += chunk.tags or []
            hidden += chunk.unknown or []
            show(len(tags))
    Y, _ = true_labels(tags, tagger.label_names, data, partial(remark, quiet=quiet), hidden)
    name = "the standard input" if data == STANDARD else Path(data).name
    return Dataset(stacked(features), Y, tagger.feature_names, tagger.label_names, name)
