"""The command ``comargin``. Nothing heavy is imported before a command needs it, so that ``--help`` answers at once."""

from __future__ import annotations

import io
import sys
import warnings
from typing import TextIO

_DEBUG = "--debug"


def main() -> None:
    """Run the command line; mistakes of the user end in one line on standard error, not in a traceback."""
    from ._app import app

    debug = _DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != _DEBUG]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the console cannot show
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    # Labels that are constant in a fold stay constant: nothing to be done about it.
    warnings.filterwarnings("ignore", r"Label (not )?\S+ is present in all training examples", UserWarning)
    try:
        app()
    except Exception as error:  # the last station: whatever it is becomes one line, or a traceback if wanted
        if debug:
            raise
        from rich.console import Console
        from rich.markup import escape

        text = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, ValueError | OSError | ImportError):
            text = f"{type(error).__name__}: {text}; this should not happen: run it again with {_DEBUG}, and tell us"
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(text)}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One line, without the place in the code."""
    from rich.console import Console
    from rich.markup import escape

    text = escape(" ".join(str(message).split()))
    Console(stderr=True).print(f"[bold yellow]Warning:[/] {text}", highlight=False, soft_wrap=True)
