"""``comargin warmup``: compile all loops before they are needed."""

from __future__ import annotations

import time

import typer

from ._console import Quiet
from ._progress import Steps


def warmup(quiet: Quiet = False) -> None:
    r"""Compile the loops of all learners, once after an installation or upgrade.

    They are kept on disk. Without this, the first fit of each learner compiles its own, which takes some seconds.

    \b
    comargin warmup     # a minute or two; later runs find everything there
    """
    from ..training import warmup as compile_all

    start = time.perf_counter()
    with Steps(quiet=quiet) as steps:
        n_compiled = compile_all(lambda what, done, total: steps.show(what, done, total))
    seconds = time.perf_counter() - start
    if n_compiled:
        typer.echo(f"Compiled {n_compiled} loops in {seconds:.0f} s; they are kept on disk.")
    else:
        typer.echo("All loops are compiled already.")
