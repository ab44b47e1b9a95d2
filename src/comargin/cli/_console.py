"""Where commands write: results to the standard output, remarks and progress to standard error, files after a check."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

INTERRUPTED = 130  # exit code after Ctrl-C
_WIDE = 10_000  # columns: nothing is shortened or folded
_WIDE_ENOUGH_FOR_BYTES = 72  # columns; a narrower terminal shows percents
_PATIENCE, _LONGEST_SILENCE = 1.0, 60.0  # seconds before the first line about rows, and between two lines


def console_for(wide: bool = False, stderr: bool = False) -> Console:
    """Return a console; its lines are as long as needed when asked for, and when the output is no terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, emoji=False)
    return Console(stderr=stderr, width=_WIDE, emoji=False) if wide or not console.is_terminal else console


def remark(text: str, quiet: bool = False) -> None:
    """Print a remark on standard error, such as where a file is or what is left out."""
    if not quiet:
        console_for(stderr=True).print(text, style="dim", highlight=False, soft_wrap=True, markup=False)


def say(text: str) -> None:
    """Print one line of the results as it is, however long it is."""
    console_for().print(text, highlight=False, soft_wrap=True, markup=False)


def file_size(path: Path) -> str:
    """Size of a file for people."""
    n_bytes = path.stat().st_size
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(n_bytes, 100) / 1e3:.1f} kB"


def check_target(flag: str, target: Path, example: str) -> None:
    """Refuse a file that could not be written, before any work."""
    if target.is_dir():
        raise ValueError(f"{flag} {target} is a folder; name the file to write, such as {target / example}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{flag} {target} is a device or a pipe; name a file")
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{flag} {target}: nothing can be written into {folder} ({error.strerror})") from error


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document; infinite and undefined numbers become null."""
    json.dump(_plain(document), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not -float("inf") < value < float("inf") else value


def better(measure: str) -> str:
    """Which values of a measure are the better ones: "higher" or "lower"."""
    from ..metrics import higher_is_better

    return "higher" if higher_is_better[measure] else "lower"


def table_of(*headings: str, n_left: int = 1) -> Table:
    """An empty table; columns after the first ``n_left`` hold numbers, which are not broken."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*headings, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns[n_left:]:
        column.justify, column.no_wrap = "right", True
    return table


def measures_table(values: Mapping[str, float]) -> Table:
    """Make a table of what `comargin.metrics.evaluate` returns: measure, value, and which values are better."""
    from rich.text import Text

    table = table_of("measure", "value", "better")
    table.columns[2].justify = "left"
    for name, value in values.items():
        table.add_row(Text(name), _shown(value), better(name))
    return table


def labels_table(labels: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of what `comargin.metrics.per_label` returns, one row per label."""
    from rich.text import Text

    headings = {"f1": "F1", "auc": "AUC"}
    table = table_of(*(headings.get(name, name) for name in (labels[0] if labels else ("label",))))
    for label in labels:
        table.add_row(Text(str(label["label"])), *(_shown(value) for name, value in label.items() if name != "label"))
    return table


def _shown(value: float) -> str:
    """A count as it is, a measure with four digits, a dash for an undefined measure."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if value == value else "-"


@contextmanager
def step_progress(quiet: bool = False, patience: float = 0.0) -> Iterator[Callable[..., None]]:
    """Progress over a known number of steps, by calls of ``show(text, done, total, line=True)``.

    Without a terminal there is a line per step, after ``patience`` seconds; ``line=False`` prints none.
    """
    console = console_for(stderr=True)
    if quiet or not console.is_terminal:
        began = time.perf_counter()

        def show(text: str, done: int, total: int, line: bool = True) -> None:
            if line and time.perf_counter() - began >= patience:
                remark(f"{done}/{total} {text}", quiet)

        yield show
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    description = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), description)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total, line=True: bar.update(task, completed=done, total=total, description=text)


@contextmanager
def row_progress(quiet: bool, size: int | None = None) -> Iterator[Callable[..., None]]:
    """How many rows are done, and how many bytes of the input of this size are read, by calls of ``show``.

    Nothing within a second. Without a terminal, lines come after one second, then two, four, up to a minute.
    """
    console = console_for(stderr=True)
    began, next_line = time.perf_counter(), _PATIENCE
    with ExitStack() as stack:
        bar: Progress | None = None

        def show(n_rows: int, n_bytes: int = 0) -> None:
            nonlocal bar, next_line
            seconds = time.perf_counter() - began
            if quiet or seconds < next_line:
                return
            done = f"{n_rows} rows, {n_rows / seconds:.0f} rows/s"
            if not console.is_terminal:
                next_line = seconds + min(seconds, _LONGEST_SILENCE)
                console.print(done, style="dim", highlight=False)
                return
            if bar is None:
                bar = stack.enter_context(_row_bar(console, size))
                bar.add_task(done, total=size)
            bar.update(bar.task_ids[0], description=done, completed=n_bytes)

        yield show


def _row_bar(console: Console, size: int | None) -> Progress:
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn

    how_far = DownloadColumn() if console.width >= _WIDE_ENOUGH_FOR_BYTES else TaskProgressColumn()
    columns = [TextColumn("{task.description}"), BarColumn(), *([] if size is None else [how_far])]
    return Progress(*columns, console=console, transient=True)
