"""Commands on the pages of the guide: all have options that exist, and those of the tutorial print what it shows."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer.main

from comargin.cli._app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands():
    """All lines of all pages that begin with comargin, also behind a pipe."""
    for page in PAGES:
        for block in re.findall(r"```(?:console|text)?\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            for line in block.splitlines():
                found = re.match(r"(?:\$ )?(?:.*\| )?(comargin [a-z].*?)(?: \| .*| > .*|\s+#.*)?$", line)
                if (
                    found
                    and "..." not in line
                    and "--list-models" not in line
                    and not re.search(r" [A-Z]{2,}\b| \[", line)
                ):
                    yield pytest.param(found[1], id=f"{page.stem}: {found[1][:60]}")


@pytest.mark.parametrize("line", list(commands()))
def test_options_exist(line):
    command, (_, *words) = typer.main.get_command(app), shlex.split(line)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)  # raises a usage error otherwise


def test_there_are_commands_to_look_at():
    assert len(list(commands())) > 30


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows():
    tutorial = runpy.run_path(str(ROOT / "docs" / "run_tutorial.py"))
    page = tutorial["PAGE"].read_text(encoding="utf-8")
    assert tutorial["rewritten"](page) == page
