"""The tree of commands."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ._compare import compare
from ._console import INTERRUPTED
from ._data import convert_file, info, list_sets
from ._demo import demo, warmup
from ._evaluate import evaluate
from ._graph import graph
from ._info import model_info
from ._options import in_flags
from ._predict import predict
from ._report import report
from ._train import train

# Base class of all usage errors; Typer has no public name for it.
usage_error: type[Exception] = typer.BadParameter.__mro__[1]


class _UntypedSwitches:
    """Help that shows no type for switches, which take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


# Names of the library for parameters of commands.
_OTHER_NAMES = {
    "models": "model",
    "params": "param",
    "datasets": "data",
    "n_jobs": "jobs",
    "random_state": "seed",
    "id_name": "id",
}


class _Command(_UntypedSwitches, TyperCommand):
    """A command that ends Ctrl-C with one line, and whose errors name its flags; one about a flag is wrong usage."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with in_flags(self._flags()):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except ValueError as error:
            if str(error).startswith("--"):
                raise usage_error(str(error)) from error
            raise

    def _flags(self) -> dict[str, str]:
        """Flag of every argument of the library that an option of the command takes the value of."""
        # A switch has no value that could be wrong; an argument without a flag is shown as it is in the help.
        params = [each for each in self.params if not getattr(each, "is_flag", False)]
        shown = {str(each.name): each.opts[0] if "--" in each.opts[0] else str(each.metavar) for each in params}
        others = {name: shown[own] for name, own in _OTHER_NAMES.items() if own in shown}
        return others | {name: flag for name, flag in shown.items() if flag.startswith("--")}


class _Group(_UntypedSwitches, TyperGroup):
    pass


app = typer.Typer(
    help="Multi-label classification that learns with the structure between labels.",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="List, inspect and convert multi-label data sets.", cls=_Group, no_args_is_help=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"comargin {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, Option("--debug", help="Show where an error comes from; may stand anywhere in the line.")
    ] = False,
) -> None:
    pass


def _help_of(command: Callable[..., Any]) -> str:
    r"""The docstring, a line per paragraph; those after ``\b`` keep their lines, as click has it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        "\b" + text.removeprefix(r"\b") if text.startswith(r"\b") else " ".join(text.split()) for text in paragraphs
    )


for _command in (train, predict, evaluate, compare, report, graph, warmup, demo):
    app.command(cls=_Command, help=_help_of(_command))(_command)
app.command("info", cls=_Command, help=_help_of(model_info))(model_info)
for _name, _command in (("list", list_sets), ("info", info), ("convert", convert_file)):
    data_app.command(_name, cls=_Command, help=_help_of(_command))(_command)
app.add_typer(data_app, name="data")
