"""The command ``comargin``. Nothing heavy is imported before a command needs it, so that ``--help`` answers at once."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any, TextIO

_DEBUG = "--debug"
_WRONG_USAGE = 2  # exit code


def main() -> None:
    """Run the command line; mistakes of the user end in one line on standard error, not in a traceback."""
    from ._app import app, usage_error

    debug = _DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != _DEBUG]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the console cannot show
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    # Labels that are constant in a fold stay constant: nothing to be done about it.
    warnings.filterwarnings("ignore", r"Label (not )?\S+ is present in all training examples", UserWarning)
    try:
        code = app(standalone_mode=False)
    except usage_error as error:
        text = error.format_message()  # type: ignore[attr-defined]
        if text.strip():  # a command without anything has shown its help, and has nothing to add
            _show_error(_usage_text(text, getattr(error, "ctx", None)))
        sys.exit(_WRONG_USAGE)
    except Exception as error:  # any other error becomes one line, or a traceback with --debug
        if debug:
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, ValueError | OSError | ImportError):
            text = f"{type(error).__name__}: {text}; this should not happen: run it again with {_DEBUG}, and tell us"
        _show_error(text)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_text(text: str, context: Any) -> str:
    """What is wrong with the line that was typed, and where all options are listed."""
    text = " ".join(text.split()).replace("Value error, ", "").removesuffix(".")
    return text if context is None else f"{text}; see {context.command_path} --help"


def _show_error(text: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True).print(f"[bold red]Error:[/] {escape(text)}", highlight=False, soft_wrap=True)


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
