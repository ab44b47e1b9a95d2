"""The tree of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from ._data import data_app

app = typer.Typer(
    help="Multi-label classification that learns with the structure between labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"comargin {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """Train, certify and compare on built-in data: no download, a few seconds."""
    from ._demo import run_demo

    run_demo()
