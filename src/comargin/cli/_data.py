"""``comargin data``: list, inspect and convert data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ._console import console_for, say, table_of
from ._options import WRITING_FLAGS, DataHome, Source, Split, ToDelimiter, in_flags, reads_a_file
from ._rows import obtain

if TYPE_CHECKING:
    from ..data import Dataset


def list_sets(data_home: DataHome = None) -> None:
    r"""List the known data sets and where they are.

    \b
    comargin data list
    comargin data list --data-home ~/sets
    """
    from ..data import list_datasets
    from ..data.catalogue import find_data_home

    table = table_of("name", "rows", "features", "labels", "per row", "train/test", "size", "where")
    table.columns[-1].justify = "left"
    for info in list_datasets(data_home):
        sizes = ("-" if size is None else str(size) for size in (info.n_samples, info.n_features, info.n_labels))
        per_row = "-" if info.labels_per_row is None else f"{info.labels_per_row:.2f}"
        parts = "-" if info.n_train is None else f"{info.n_train}/{info.n_test}"
        place = "not here" if info.where is None else "data folder"
        is_here = place == "data folder" and info.where not in (None, "built in", "OpenML")
        size = _folder_size(Path(str(info.where))) if is_here else "-"
        table.add_row(
            info.name, *sizes, per_row, parts, size, info.where if info.where in ("built in", "OpenML") else place
        )
    console = console_for(wide=True)
    console.print(table)
    home = find_data_home(data_home)
    console.print(f"data folder: {home}", style="dim", highlight=False, soft_wrap=True, markup=False)


def _folder_size(folder: Path) -> str:
    """Size of the files of a data set."""
    return f"{sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6:.1f} MB"


@reads_a_file
def info(source: Source, *, split: Split = "all", data_home: DataHome = None, reading: dict[str, Any]) -> None:
    r"""Show shape, density and labels of one data set.

    \b
    comargin data info yeast
    comargin data info posts.csv --text body --labels tags --sep ";"
    comargin data info posts.jsonl --text body --labels tags
    comargin data info genes.csv --labels -14      # the last 14 columns
    """
    console_for().print(*_summary(obtain(source, split, data_home, reading)), sep="\n")


@reads_a_file
def convert_file(
    source: Source,
    target: Annotated[
        Path, Argument(metavar="TARGET", help="File to write; its suffix says the format unless --to does.")
    ],
    *,
    to: Annotated[str | None, Option(help="Format to write.")] = None,
    to_sep: Annotated[str, Option(help="Separator inside a label list that is written.")] = ";",
    to_delimiter: ToDelimiter = None,
    force: Annotated[bool, Option("--force", help="Overwrite existing files.")] = False,
    split: Split = "all",
    data_home: DataHome = None,
    reading: dict[str, Any],
) -> None:
    r"""Convert a data set into another format.

    \b
    comargin data convert yeast yeast.csv
    comargin data convert posts.csv posts.parquet --text body --labels tags
    comargin data convert genes.csv genes.svm --labels -14 --to libsvm
    """
    from ..data import write
    from ..data.formats import target_files

    if target.is_dir():
        raise ValueError(f"{target} is a folder; name the file to write, such as {target / Path(source).stem}.csv")
    with in_flags(WRITING_FLAGS):
        files = target_files(target, to)
    existing = [str(path) for path in files if path.exists()]
    if existing and not force:
        exist, them = ("exists", "it") if len(existing) == 1 else ("exist", "them")
        raise ValueError(f"{' and '.join(existing)} {exist} already; --force overwrites {them}")
    dataset = obtain(source, split, data_home, reading)
    with in_flags(WRITING_FLAGS):
        written = write(dataset, target, format=to, sep=to_sep, delimiter=to_delimiter)
    say(f"{' and '.join(map(str, written))}: {_shape(dataset)}")


def _shape(dataset: Dataset) -> str:
    from ..core.wording import counted

    n_samples, n_labels = dataset.Y.shape
    features = "texts" if isinstance(dataset.X, list) else counted(dataset.X.shape[1], "feature")
    return f"{counted(n_samples, 'row')}, {features}, {counted(n_labels, 'label')}"


def _summary(dataset: Dataset) -> list[Any]:
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from ..core.indicator import known_share, split_unknown
    from ..core.wording import counted

    Y, known = split_unknown(dataset.Y, "dataset.Y")
    per_label = np.asarray(Y.sum(axis=0)).ravel().astype(int)
    per_row = np.asarray(Y.sum(axis=1)).ravel()
    n_known = np.full(len(per_label), len(per_row)) if known is None else known.sum(axis=0)
    facts = [f"{dataset.name}: {_shape(dataset)}"]
    X: Any = dataset.X
    if not isinstance(X, list):
        form, stored = ("sparse", X.nnz) if hasattr(X, "nnz") else ("dense", np.count_nonzero(X))
        size = X.shape[0] * X.shape[1]
        facts.append(f"features: {form}, {stored / size:.2%} non-zero" if size else f"features: {form}, none")
    if per_row.size and per_label.size:
        empty = counted(int((per_row == 0).sum()), "row")
        span = f"{int(per_row.min())} to {int(per_row.max())}"
        facts.append(f"labels per row: {per_row.mean():.3f} ({span}; {empty} without)")
    if known is not None:
        facts.append(f"known cells of Y: {known_share(dataset.Y)}")
    without = int((per_label == 0).sum())
    if without:
        facts.append(f"labels without a positive row: {without}")
    headings = ["label", "rows", "share", *([] if known is None else ["known"])]
    table = Table(*headings, title="most frequent labels", title_justify="left")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for label in np.argsort(-per_label, kind="stable")[:10]:
        share = per_label[label] / max(n_known[label], 1)
        seen = [] if known is None else [str(n_known[label])]
        table.add_row(Text(dataset.label_names[label]), str(per_label[label]), f"{share:.1%}", *seen)
    return [*(Text(fact) for fact in facts), table]
