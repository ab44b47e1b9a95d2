"""The tree of commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import __version__
from ._compare import compare
from ._data import data_app
from ._demo import demo
from ._evaluate import evaluate
from ._graph import graph
from ._predict import predict
from ._report import report
from ._train import train
from ._warmup import warmup

INTERRUPTED = 130

app = typer.Typer(
    help="Multi-label classification that learns with the structure between labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"comargin {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from; may stand anywhere in the line.")
    ] = False,
) -> None:
    pass


def _help_of(command: Callable[..., Any]) -> str:
    r"""The docstring, a line per paragraph; those after ``\b`` keep their lines, as click has it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        "\b" + text.removeprefix(r"\b") if text.startswith(r"\b") else " ".join(text.split()) for text in paragraphs
    )


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """End with one line and the usual exit code at Ctrl-C."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run


for _command in (train, predict, evaluate, compare, report, graph, warmup, demo):
    app.command(help=_help_of(_command))(_interruptible(_command))
app.add_typer(data_app, name="data")
