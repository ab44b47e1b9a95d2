"""The command line as a user meets it: real processes for what a process does, the runner for the rest."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import comargin
from comargin.cli._app import app
from comargin.data import Dataset, read, write

COMMAND = Path(sys.executable).with_name("comargin")


def run(*arguments, **environment):
    """Run the installed command; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [str(COMMAND), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def small(tmp_path):
    X = sp.csr_array(np.array([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]]))
    Y = sp.csr_array(np.array([[1, 0], [1, 1]], dtype=np.int8))
    data = Dataset(X, Y, ("a", "b b", "c"), ("x", "y'z"), "small")
    write(data, tmp_path / "small.arff")
    return tmp_path / "small.arff"


def test_version():
    assert run("--version") == (0, f"comargin {comargin.__version__}\n", "")


def test_help_names_the_commands():
    code, out, _ = run("--help")
    assert code == 0
    assert all(word in out for word in ("demo", "data"))


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "comargin", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"comargin {comargin.__version__}\n"


@pytest.mark.parametrize("arguments", [["dem"], ["data", "lst"], ["demo", "--fast"]])
def test_typing_mistakes_end_with_usage(arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert not out
    assert "Usage" in err
    assert "Traceback" not in err


def test_demo_ends_with_the_table():
    code, out, err = run("demo")
    assert code == 0, err
    table = out[out.index("On the new images") :]
    assert "wrong labels" in table
    assert "M3L + thresholds" in table
    assert "Certified." in out


def test_list_names_known_sets(tmp_path):
    result = CliRunner().invoke(app, ["data", "list", "--data-home", str(tmp_path)])
    assert result.exit_code == 0
    assert "digits" in result.stdout
    assert "built in" in result.stdout


def test_info_of_a_file(small):
    code, out, _ = run("data", "info", small)
    assert code == 0
    assert "small: 2 rows, 3 features, 2 labels" in out
    assert "labels per row: 1.500 (1 to 2; 0 rows without)" in out
    assert "y'z" in out


def test_info_of_a_known_set():
    code, out, _ = run("data", "info", "digits", "--split", "test")
    assert code == 0
    assert "digits: 450 rows, 64 features, 7 labels" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "info", "digts"], "did you mean digits"),
        (["data", "info", "nothing/here.arff"], "there is no file nothing/here.arff"),
        (["data", "info", "digits", "--split", "half"], "split"),
        (["data", "info", "digits", "--text", "body"], "--text only says how to read a file"),
        (["data", "convert", "nothing.arff", "out.csv"], "nothing.arff"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message):
    code, out, err = run(*arguments)
    assert code == 1
    assert not out
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


def test_broken_file_names_file_and_line(tmp_path):
    path = tmp_path / "broken.arff"
    path.write_text("@relation 'r: -C 1'\n@attribute l {0,1}\n@attribute a numeric\n@data\n1,0.5\n0,abc\n")
    code, _, err = run("data", "info", path)
    assert code == 1
    assert f"{path}:6" in err
    assert "abc" in err


def test_convert_and_back(small, tmp_path):
    for target in ("s.csv", "s.svm", "s.txt", "s.parquet"):
        code, out, err = run("data", "convert", small, tmp_path / target)
        assert code == 0, err
        assert "2 rows, 3 features, 2 labels" in out
    original, again = read(small), read(tmp_path / "s.csv")
    assert again.label_names == original.label_names
    assert again.feature_names == original.feature_names
    np.testing.assert_array_equal(again.X, original.X.toarray())


def test_convert_does_not_overwrite_unless_told(small, tmp_path):
    target = tmp_path / "s.csv"
    target.write_text("mine")
    code, _, err = run("data", "convert", small, target)
    assert code == 1
    assert "--force" in err
    assert target.read_text() == "mine"
    assert run("data", "convert", small, target, "--force")[0] == 0
    assert target.read_text() != "mine"


def test_tagging_table(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text('body,tags\n"rain, again",weather\nthe cup final,sport|football\n')
    code, out, err = run("data", "info", path, "--text", "body", "--labels", "tags", "--sep", "|")
    assert code == 0, err
    assert "2 rows, texts, 3 labels" in out
