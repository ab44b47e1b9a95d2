"""The command ``comargin``. Nothing heavy is imported before a command needs it, so that ``--help`` answers at once.

- _app.py: the tree of commands. _data.py: those of ``comargin data``. _demo.py: ``demo`` and ``warmup``.
- _train.py, _predict.py, _evaluate.py, _compare.py, _graph.py, _info.py, _report.py: one command each.
- _options.py: what commands share. _rows.py: rows as a tagger takes them. _console.py: results, remarks, progress.
"""

import io
import signal
import sys
import warnings
from typing import Any

_DEBUG = "--debug"
_WRONG_USAGE, _INTERRUPTED = 2, 130  # exit codes


def main() -> None:
    """Run the command line; mistakes and signals end in one line on standard error, not in a traceback."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        _run()
    except KeyboardInterrupt:  # at start-up; commands end it themselves
        sys.stderr.write("Interrupted.\n")
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: Any) -> None:
    """End as a shell expects it of a program that SIGTERM ended; files are whole or as they were."""
    sys.stderr.write("Terminated.\n")
    sys.exit(128 + number)


def _run() -> None:
    from ..core.wording import CONSTANT_LABEL
    from ._app import app, usage_error

    debug = _DEBUG in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != _DEBUG]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may hold characters that the console cannot show
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *place, **more: _show("[bold yellow]Warning:[/]", str(message))
    warnings.filterwarnings("ignore", CONSTANT_LABEL, UserWarning)
    try:
        code = app(standalone_mode=False)
    except usage_error as error:
        if debug and error.__cause__ is not None:
            raise
        text = error.format_message()  # type: ignore[attr-defined]
        if text.strip():  # empty after a bare command, which has printed its help
            _show("[bold red]Error:[/]", _usage_text(text, getattr(error, "ctx", None)))
        sys.exit(_WRONG_USAGE)
    except Exception as error:  # any other error becomes one line, or a traceback with --debug
        if debug:
            raise
        text = str(error).strip() or type(error).__name__
        if not isinstance(error, ValueError | OSError | ImportError):
            text = f"{type(error).__name__}: {text}; this is a bug: run it again with {_DEBUG} and report it"
        _show("[bold red]Error:[/]", text)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_text(text: str, context: Any) -> str:
    """What is wrong with the command line, and which command lists the options."""
    text = text.strip().replace("Value error, ", "").removesuffix(".")
    return text if context is None else f"{text}; see {context.command_path} --help"


def _show(kind: str, text: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, emoji=False).print(f"{kind} {escape(' '.join(text.split()))}", highlight=False, soft_wrap=True)
