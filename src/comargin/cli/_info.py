"""``comargin info``: what is in a model file."""

from __future__ import annotations

from ._console import file_size, say
from ._options import ExpectHash, TaggerFile


def model_info(tagger: TaggerFile, *, expect_hash: ExpectHash = None) -> None:
    r"""Show what is in a model file, and check that nothing in it was changed.

    \b
    comargin info tagger.cmg
    comargin info tagger.cmg --expect-hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """
    from ..persistence import inspect

    facts = inspect(tagger, verify=True, expect_hash=expect_hash)
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    say(f"{tagger}: {file_size(tagger)}, format {facts['format']}")
    say(f"written by comargin {facts['comargin']} with {versions}")
    for line in _lines(facts["model"]):
        say(line)
    if facts["sha256"] is None:
        say("sha256: none, as in files of early versions")
    else:
        say(f"sha256: {facts['sha256']} (its contents match)")


def _lines(tree: dict | None, name: str = "model", depth: int = 0) -> list[str]:
    """A line for every estimator, those inside of others indented."""
    if tree is None:
        return ["model: no estimator"]
    inside = [line for part, below in tree["parts"].items() for line in _lines(below, part, depth + 1)]
    return [f"{'  ' * depth}{name}: {tree['class']}", *inside]
