"""The page about model files says what happens."""

import contextlib
import io
import re
from pathlib import Path

from comargin.persistence import _archive, _files

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "model_files.md").read_text(encoding="utf-8")


def test_python_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "model_files.md", "exec"), {})
    assert out.getvalue() == expected


def test_limits_are_those_of_the_code():
    assert f"{_files.DEFAULT_MAX_SIZE >> 30} GiB if you say nothing" in PAGE
    assert f"| `model.json` | {_archive.MAX_JSON >> 20} MiB, {_archive.MAX_DEPTH} levels deep |" in PAGE
    assert f"| table of contents | {_archive._MAX_DIRECTORY >> 20} MiB |" in PAGE
