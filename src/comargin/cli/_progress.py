"""Progress on standard error: a bar on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._console import console_for, remark

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 1.0  # seconds before the first line about rows
_LONGEST_SILENCE = 60.0  # seconds between two lines
_WIDE_ENOUGH_FOR_BYTES = 72  # columns; a narrower terminal shows percents


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


class RowProgress:
    """Shows how many rows are done, once they take longer than a second.

    Without a terminal, lines come after one second, then two, four, up to a minute.
    """

    def __init__(self, quiet: bool, size: int | None = None) -> None:
        self._quiet, self._size = quiet, size
        self._console = console_for(stderr=True)
        self._began = time.perf_counter()
        self._next = _PATIENCE
        self._bar: Progress | None = None

    def __enter__(self) -> RowProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, n_rows: int, n_bytes: int | None = None) -> None:
        """Show how many rows are done, and how many bytes of the input are read."""
        seconds = time.perf_counter() - self._began
        if self._quiet or seconds < self._next:
            return
        done = f"{n_rows} rows, {n_rows / seconds:.0f} rows/s"
        if not self._console.is_terminal:
            self._next = seconds + min(seconds, _LONGEST_SILENCE)
            self._console.print(done, style="dim", highlight=False)
            return
        if self._bar is None:
            self._bar = self._started(done)
        self._bar.update(self._bar.task_ids[0], description=done, completed=n_bytes or 0)

    def _started(self, done: str) -> Progress:
        from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn

        how_far = DownloadColumn() if self._console.width >= _WIDE_ENOUGH_FOR_BYTES else TaskProgressColumn()
        columns = [TextColumn("{task.description}"), BarColumn(), *([] if self._size is None else [how_far])]
        bar = Progress(*columns, console=self._console, transient=True)
        bar.add_task(done, total=self._size)
        bar.start()
        return bar
