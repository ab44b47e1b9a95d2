"""Where commands write: results to the standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130  # exit code of what Ctrl-C has ended
_WIDE = 10_000  # columns: nothing is shortened or folded

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks, results only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON on the standard output, nothing else.")]


def console_for(wide: bool = False, stderr: bool = False) -> Console:
    """Return a console; its lines are as long as needed when asked for, and when the output is no terminal."""
    from rich.console import Console

    console = Console(stderr=stderr)
    return Console(stderr=stderr, width=_WIDE) if wide or not console.is_terminal else console


def remark(text: str, quiet: bool = False) -> None:
    """Say something on standard error that is no result: where a file is, what is left out."""
    if not quiet:
        console_for(stderr=True).print(text, style="dim", highlight=False, soft_wrap=True, markup=False)


def say(text: str) -> None:
    """Print one line of the results as it is, however long it is."""
    console_for().print(text, highlight=False, soft_wrap=True, markup=False)


def file_size(path: Path) -> str:
    """Size of a file for people."""
    n_bytes = path.stat().st_size
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(n_bytes, 100) / 1e3:.1f} kB"


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document; numbers that JSON has no word for are null."""
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
