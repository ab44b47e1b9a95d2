"""The command ``comargin``. Nothing heavy is imported before a command needs it, so that ``--help`` answers at once."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; mistakes of the user end in one line on standard error, not in a traceback."""
    from ._app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the console cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        from rich.console import Console

        Console(stderr=True).print(f"[bold red]Error:[/] {_escaped(error)}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _escaped(error: Exception) -> str:
    from rich.markup import escape

    return escape(str(error) or type(error).__name__)
