"""Run the commands of the tutorial and write what they print below them.

Run: python docs/run_tutorial.py [--check]; with --check nothing is written, and a difference is an error.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("tutorial.md")
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands_of(block: str) -> list[str]:
    """Lines that a user types."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path) -> str:
    """What a command prints in this folder, on both streams."""
    environment = os.environ | {
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def rewritten(page: str) -> str:
    """The page with the output of its commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(PAGE.parents[1] / "examples")

        def with_output(match: re.Match[str]) -> str:
            parts = [f"$ {command}\n{run(command, folder)}".rstrip() for command in commands_of(match.group(1))]
            return "```console\n" + "\n".join(parts) + "\n```"

        return BLOCK.sub(with_output, page)


def main() -> None:
    before = PAGE.read_text(encoding="utf-8")
    after = rewritten(before)
    if "--check" not in sys.argv:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        sys.exit("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "page", "now")))


if __name__ == "__main__":
    main()
