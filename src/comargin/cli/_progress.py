"""Progress over a known number of steps, on standard error."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from ._console import console_for, remark

if TYPE_CHECKING:
    from rich.progress import Progress


class Steps:
    """A bar on a terminal, a line per step elsewhere, nothing when quiet."""

    def __init__(self, quiet: bool = False, patience: float = 0.0) -> None:
        self._quiet, self._patience = quiet, patience
        self._bar: Progress | None = None

    def __enter__(self) -> Steps:
        self._began = time.perf_counter()
        console = console_for(stderr=True)
        if not self._quiet and console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def show(self, text: str, done: int, total: int, line: bool = True) -> None:
        """Show how many steps are done and what happens; ``line=False`` keeps silent where there is no bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=text)
        elif line and time.perf_counter() - self._began >= self._patience:
            remark(f"{done}/{total} {text}", self._quiet)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
