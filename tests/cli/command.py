"""The command line as a user meets it: in this process, or in one of its own."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from comargin.cli import main

COMMAND = Path(sys.executable).with_name("comargin")


def run(*arguments, **environment):
    """Run the command here, streams and all, without the second that a process needs; returns as `run_process`."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"COLUMNS": "100", "NO_COLOR": "1", **environment}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["comargin", *map(str, arguments)])
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as end:
            main()
    return end.value.code, *(stream.buffer.getvalue().decode() for stream in streams)


def code_of(err):
    """The exit code that goes with an error: 2 where a flag is wrong, 1 where a file is."""
    return 2 if "\nError: --" in f"\n{err}" else 1


def run_process(*arguments, **environment):
    """Run the installed command; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [str(COMMAND), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr
