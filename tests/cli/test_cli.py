"""The command line as a user meets it: real processes for what a process does, the runner for the rest."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command import code_of, run, run_process
from typer.testing import CliRunner

import comargin
from comargin.cli._app import app
from comargin.data import Dataset, read, write


@pytest.fixture
def small(tmp_path):
    X = sp.csr_array(np.array([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]]))
    Y = sp.csr_array(np.array([[1, 0], [1, 1]], dtype=np.int8))
    data = Dataset(X, Y, ("a", "b b", "c"), ("x", "y'z"), "small")
    write(data, tmp_path / "small.arff")
    return tmp_path / "small.arff"


def test_version():
    assert run_process("--version") == (0, f"comargin {comargin.__version__}\n", "")


def test_help_names_the_commands():
    code, out, _ = run_process("--help")
    assert code == 0
    assert all(word in out for word in ("demo", "data"))


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "comargin", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"comargin {comargin.__version__}\n"


@pytest.mark.parametrize("arguments", [["dem"], ["data", "lst"], ["demo", "--fast"]])
def test_typing_mistakes_end_in_one_line(arguments):
    code, out, err = run_process(*arguments)
    assert code == 2
    assert not out
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert "--help" in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("train", "digits", "-m", "lsg12"), 2),
        (("train", "digits", "--jobs", "0"), 2),
        (("data", "info", "digits", "--text", "body"), 2),
        (("data", "info", "digts"), 1),
        (("data", "info", "nothing.csv"), 1),
    ],
)
def test_the_exit_code_tells_wrong_options_from_wrong_input(arguments, code):
    ended, _, err = run(*arguments)
    assert ended == code, err
    assert code_of(err) == code


@pytest.mark.parametrize("arguments", [[], ["data"]])
def test_nothing_typed_shows_the_help(arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (2, "")
    assert "Usage" in out


@pytest.mark.parametrize("command", ["train", "predict", "evaluate", "compare", "report", "graph", "data info"])
def test_help_has_examples_and_no_types_of_switches(command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert f"comargin {command} " in out.split("Arguments")[0].split("Usage")[1].partition("\n")[2]
    assert "<bool>" not in out


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
    code, out, _ = run_process("data", "info", "digits", "--split", "test")
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
    assert code == code_of(err)
    assert not out
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


def test_broken_file_names_file_and_line(tmp_path):
    path = tmp_path / "broken.arff"
    path.write_text("@relation 'r: -C 1'\n@attribute l {0,1}\n@attribute a numeric\n@data\n1,0.5\n0,abc\n")
    code, _, err = run_process("data", "info", path)
    assert code == code_of(err)
    assert f"{path}:6" in err
    assert "abc" in err


def test_convert_and_back(small, tmp_path):
    for target in ("s.csv", "s.svm", "s.txt", "s.jsonl.gz", "s.parquet"):
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
    assert code == code_of(err)
    assert "--force" in err
    assert target.read_text() == "mine"
    assert run("data", "convert", small, target, "--force")[0] == 0
    assert target.read_text() != "mine"


def test_convert_does_not_overwrite_the_second_file_either(small, tmp_path):
    xml, target = tmp_path / "new.xml", tmp_path / "new.arff"
    xml.write_text("mine")
    code, _, err = run("data", "convert", small, target)
    assert code == code_of(err)
    assert f"{xml} exists already; --force overwrites it" in err
    assert xml.read_text() == "mine"
    assert not target.exists()
    code, out, _ = run("data", "convert", small, target, "--force")
    assert code == 0
    assert f"{target} and {xml}: 2 rows" in out
    code, _, err = run("data", "convert", small, target)
    assert f"{target} and {xml} exist already; --force overwrites them" in err
    assert run("data", "convert", small, target, "--to", "libsvm")[0] == 1  # the file exists
    assert run("data", "convert", small, tmp_path / "meka.arff", "--to", "meka")[0] == 0
    assert not (tmp_path / "meka.xml").exists()


def test_convert_into_a_folder_says_so(small, tmp_path):
    code, _, err = run("data", "convert", small, tmp_path)
    assert code == code_of(err)
    assert f"{tmp_path} is a folder; name the file to write, such as {tmp_path / 'small'}.csv" in err


def test_known_sets_can_be_converted_and_a_folder_does_not_hide_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert "digits: 450 rows" in run("data", "info", "digits", "--split", "test")[1]
    assert run("data", "convert", "Digits", "d.csv", "--split", "test")[0] == 0
    assert read(tmp_path / "d.csv").X.shape == (450, 64)
    (tmp_path / "mine").mkdir()
    for source in ("mine", "./mine"):
        code, _, err = run("data", "info", source)
        assert code == code_of(err)
        assert f"{source} is a folder, neither a data file nor a known set" in err
    code, _, err = run("data", "convert", "digits", "e.csv", "--drop", "x")
    assert "--drop only says how to read a file" in err


def test_a_set_of_the_data_folder_whose_name_has_a_dot(tmp_path, small):
    folder = tmp_path / "home" / "my.set"
    folder.mkdir(parents=True)
    for suffix in (".arff", ".xml"):
        (folder / f"my{suffix}").write_bytes(small.with_suffix(suffix).read_bytes())
    code, out, err = run("data", "info", "my.set", "--data-home", tmp_path / "home")
    assert code == 0, err
    assert "my.set: 2 rows" in out


@pytest.mark.parametrize("command", ["info", "convert"])
@pytest.mark.parametrize(
    ("content", "name", "options", "expected"),
    [
        ("x;y;z\n1;2;0\n3;4;1\n", "a.csv", "--delimiter ; --labels z --drop y", "2 rows, 1 feature, 1 label"),
        ("x\ty\n1\t0\n", "a.csv", "--delimiter \\t --labels -1", "1 row, 1 feature, 1 label"),
        (",x,label:a\n0,1,0\n", "a.csv", "--drop=", "1 row, 1 feature, 1 label"),
        ('"a,b",c,l\n1,2,0\n', "a.csv", '--labels l --drop "a,b"', "1 row, 1 feature, 1 label"),
        ("x,label:a\n1,0\n,1\n", "a.csv", "--missing mean", "2 rows, 1 feature, 1 label"),
        ("gr\xf6\xdfe,label:a\n1,0\n", "a.csv", "--encoding latin-1", "1 row, 1 feature, 1 label"),
        ("1 0:2\n", "a.svm", "--index-base 0 --label-base 1 --n-features 9 --n-labels 4",
         "1 row, 9 features, 4 labels"),
        ("@relation 'r: -C 1'\n@attribute l {0,1}\n@attribute v {1,2,3}\n@data\n0,1\n", "a.arff", "--nominal onehot",
         "1 row, 3 features, 1 label"),
        ("body,tags\nhello,a|b\n", "a.csv", "--text body --labels tags --sep |", "1 row, texts, 2 labels"),
        ('{"body": "hi", "tags": "a|b"}\n', "a.jsonl", "--text body --labels tags --sep |", "1 row, texts, 2 labels"),
        ('{"body": "hi", "tags": ["a|b"]}\n', "a", "--format jsonl --text body --labels tags", "1 row, texts, 1 label"),
        ('{"id": "i", "x": 1, "is": ["a"]}\n', "a.ndjson", "--labels is --drop id", "1 row, 1 feature, 1 label"),
    ],
)  # fmt: skip
def test_both_commands_take_the_options_of_read(tmp_path, monkeypatch, command, content, name, options, expected):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content.encode("latin-1"))
    options = [option.strip('"') if "," not in option else option for option in options.split(" ")]
    arguments = [name] if command == "info" else [name, "out.parquet"]
    result = CliRunner().invoke(app, ["data", command, *arguments, *options])
    assert result.exit_code == 0, result.exception
    assert expected in result.stdout


def test_convert_can_write_other_separators(tmp_path):
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("text,labels\nhello,a|b\n")
    code, _, err = run("data", "convert", source, target, "--sep", "|", "--to-sep", "+", "--to-delimiter", "\\t")
    assert code == 0, err
    assert target.read_text() == '"text"\t"labels"\n"hello"\t"a+b"\n'


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            "a,b\n1,0\n",
            "",
            "say --labels (names or a number of columns); for texts with a column of label lists say --text ",
        ),
        ("a;b,c\n1;0,1\n", "--labels b", "say which stands between cells, as in --delimiter ','"),
        ("x,label:a\n,0\n", "", "--missing says what to do"),
        ("x,label:a\n1,0\n", "--missing drop", "--missing 'drop', allowed are"),
        ("x,label:a\n1,0\n", "--drop y", "--drop names ['y']"),
        ("x,label:a\n1,0\n", "--index-base 0", "--index-base means nothing to format 'csv'"),
        (",label:a\n1,0\n", "", "or leave it out with --drop ''"),
        ("x,label:a\n1,0\n", "--format excel", "--format 'excel' is unknown"),
        (
            "x,label:a\n1,0\n",
            "--to excel",
            "--to 'excel' is unknown, allowed are mulan, meka, libsvm, xmc, csv, text-csv, jsonl, ",
        ),
        (
            "body,tags\nred wine,a\n",
            "--labels tags",
            "(is it a text? --text 'body' reads it as one; --drop leaves it out)",
        ),
        ("x,label:a\n1,0\n", "--to text-csv", "--to 'text-csv' takes texts"),
        ("text,labels\nhello,a;b\n", "--sep | --to-sep ;", "Choose another --to-sep or --to"),
        ("x,label:a\n1,0\n", "--to-delimiter 12", "--to-delimiter '12' must be one ASCII character"),
    ],
)
def test_messages_name_the_flags(tmp_path, content, options, message):
    source = tmp_path / "a.csv"
    source.write_text(content)
    code, _, err = run("data", "convert", source, tmp_path / "b.csv", *options.split())
    assert code == code_of(err)
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "b.csv").exists()


def test_one_name_is_the_column_of_label_lists_of_texts(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\nred wine,a;b\ntea,b\n")
    code, out, err = run("data", "info", tmp_path / "a.csv", "--labels", "labels")
    assert code == 0, err
    assert "2 rows, texts, 2 labels" in out


def test_a_target_without_a_known_suffix_asks_for_to(small, tmp_path):
    code, _, err = run("data", "convert", small, tmp_path / "x.foo")
    assert code == code_of(err)
    assert "say --to (one of mulan," in err


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_the_list_keeps_its_numbers(tmp_path, columns):
    code, out, _ = run_process("data", "list", "--data-home", tmp_path, COLUMNS=columns)
    assert code == 0
    lines = out.splitlines()
    (bibtex,) = [line for line in lines if line.startswith("bibtex")]
    assert bibtex.split() == ["bibtex", "7395", "1836", "159", "2.40", "4880/2515", "-", "not", "here"]
    (tmc,) = [line for line in lines if line.startswith("tmc2007-500")]
    assert "21519/7077" in tmc
    assert max(len(line) for line in lines[:-1]) <= 80


def test_a_console_that_knows_only_ascii(tmp_path):
    (tmp_path / "a.csv").write_text("x,label:gr\u00f6\u00dfe\n1,1\n", encoding="utf-8")
    code, out, err = run_process("data", "info", tmp_path / "a.csv", PYTHONIOENCODING="ascii")
    assert code == 0, err
    assert "1 row, 1 feature, 1 label" in out
    assert "gr\\xf6\\xdfe" in out


def test_tagging_table(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text('body,tags\n"rain, again",weather\nthe cup final,sport|football\n')
    code, out, err = run("data", "info", path, "--text", "body", "--labels", "tags", "--sep", "|")
    assert code == 0, err
    assert "2 rows, texts, 3 labels" in out
