"""``comargin data``: what sets there are, what is in one, and conversion between formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..data import Dataset

data_app = typer.Typer(help="List, inspect and convert multi-label data sets.", no_args_is_help=True)

DataHome = Annotated[
    Path | None,
    typer.Option("--data-home", help="Folder of data sets  [default: $COMARGIN_DATA, else ~/.cache/comargin]"),
]
Format = Annotated[str | None, typer.Option("--format", help="Format of the file; found by itself if not given.")]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Which columns are labels: names separated by commas, a number of leading (> 0) or trailing (< 0) "
        "columns, an XML list, or the column of label lists with --text."
    ),
]
Text = Annotated[str | None, typer.Option(help="Text column of a table with a column of label lists.")]
Sep = Annotated[str, typer.Option(help="Separator inside a label list.")]
Missing = Annotated[str, typer.Option(help="Missing values: error, nan, zero or mean.")]


@data_app.command("list")
def list_sets(data_home: DataHome = None) -> None:
    """List the known data sets and where they are."""
    from rich.console import Console
    from rich.table import Table

    from ..data import list_datasets
    from ..data.catalogue import find_data_home

    home = find_data_home(data_home)
    table = Table("name", "rows", "features", "labels", "labels/row", "train/test", "where")
    table.columns[0].no_wrap = True
    for column in table.columns[1:6]:
        column.justify = "right"
    for info in list_datasets(data_home):
        table.add_row(
            info.name,
            _count(info.n_samples),
            _count(info.n_features),
            _count(info.n_labels),
            "-" if info.labels_per_row is None else f"{info.labels_per_row:.2f}",
            "-" if info.n_train is None else f"{info.n_train}/{info.n_test}",
            _place(info.where),
        )
    console = Console()
    console.print(table)
    console.print(f"data folder: {home}", style="dim", highlight=False, soft_wrap=True, markup=False)


@data_app.command("info")
def info(
    source: Annotated[str, typer.Argument(help="A data file, or the name of a known set.")],
    split: Annotated[str, typer.Option(help="all, train or test (known sets).")] = "all",
    data_home: DataHome = None,
    format: Format = None,
    labels: Labels = None,
    text: Text = None,
    sep: Sep = ";",
    missing: Missing = "error",
) -> None:
    """Show shape, density and labels of one data set."""
    from rich.console import Console

    reading = _reading_options(format, labels, text, sep, missing)
    if Path(source).exists():
        from ..data import read

        if split != "all":
            raise ValueError("--split is for known sets; a file is read whole")
        dataset = read(source, **reading)
    elif _looks_like_a_file(source):
        raise FileNotFoundError(f"there is no file {source}")
    else:
        from ..data import load

        if reading:
            options = ", ".join(f"--{name}" for name in reading)
            raise ValueError(f"{source} is not a file, and {options} only says how to read a file")
        dataset = load(source, split=split, data_home=data_home)
    Console().print(*_summary(dataset), sep="\n")


@data_app.command("convert")
def convert_file(
    source: Annotated[Path, typer.Argument(help="File to read.")],
    target: Annotated[Path, typer.Argument(help="File to write; its suffix says the format unless --to does.")],
    format: Format = None,
    to: Annotated[str | None, typer.Option(help="Format to write.")] = None,
    labels: Labels = None,
    text: Text = None,
    sep: Sep = ";",
    missing: Missing = "error",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing target.")] = False,
) -> None:
    """Convert a data file into another format."""
    from rich.console import Console

    from ..data import convert

    if target.exists() and not force:
        raise ValueError(f"{target} exists already; --force overwrites it")
    reading = _reading_options(format, labels, text, sep, missing)
    dataset = convert(source, target, source_format=reading.pop("format", None), target_format=to, **reading)
    Console().print(f"{target}: {_shape(dataset)}", highlight=False, soft_wrap=True, markup=False)


def _reading_options(
    format: str | None, labels: str | None, text: str | None, sep: str, missing: str
) -> dict[str, Any]:
    """Only what differs from the defaults of ``read``, in the types it takes."""
    options: dict[str, Any] = {}
    if format is not None:
        options["format"] = format
    if labels is not None:
        options["labels"] = _labels(labels, is_column=text is not None)
    if text is not None:
        options["text"] = text
    if sep != ";":
        options["sep"] = sep
    if missing != "error":
        options["missing"] = missing
    return options


def _labels(value: str, is_column: bool) -> str | int | list[str]:
    if is_column or value.lower().endswith(".xml"):
        return value
    try:
        return int(value)
    except ValueError:
        return value.split(",")


def _place(where: str | None) -> str:
    """Where a set comes from, for the list: a folder is in the data folder, named once below the table."""
    if where in ("built in", "OpenML"):
        return where
    return "not here" if where is None else "data folder"


def _looks_like_a_file(source: str) -> bool:
    return Path(source).suffix != "" or len(Path(source).parts) > 1


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _shape(dataset: Dataset) -> str:
    n_samples, n_labels = dataset.Y.shape
    features = "texts" if isinstance(dataset.X, list) else f"{dataset.X.shape[1]} features"
    return f"{n_samples} rows, {features}, {n_labels} labels"


def _summary(dataset: Dataset) -> list[Any]:
    import numpy as np
    from rich.table import Table
    from rich.text import Text as RichText

    per_label = np.asarray(dataset.Y.sum(axis=0)).ravel().astype(int)
    per_row = np.asarray(dataset.Y.sum(axis=1)).ravel()
    facts = [f"{dataset.name}: {_shape(dataset)}"]
    if not isinstance(dataset.X, list):
        stored = dataset.X.nnz if hasattr(dataset.X, "nnz") else int(np.count_nonzero(dataset.X))
        size = dataset.X.shape[0] * dataset.X.shape[1]
        form = "sparse" if hasattr(dataset.X, "nnz") else "dense"
        facts.append(f"features: {form}, {stored / size:.2%} non-zero" if size else f"features: {form}, none")
    if per_row.size and per_label.size:
        facts.append(
            f"labels per row: {per_row.mean():.3f} ({int(per_row.min())} to {int(per_row.max())}; "
            f"{int((per_row == 0).sum())} rows without)"
        )
    without = int((per_label == 0).sum())
    if without:
        facts.append(f"labels without a positive row: {without}")
    table = Table("label", "rows", "share", title="most frequent labels", title_justify="left")
    table.columns[1].justify = table.columns[2].justify = "right"
    for label in np.argsort(-per_label, kind="stable")[:10]:
        share = per_label[label] / max(len(per_row), 1)
        table.add_row(RichText(dataset.label_names[label]), str(per_label[label]), f"{share:.1%}")
    return [*(RichText(fact) for fact in facts), table]
