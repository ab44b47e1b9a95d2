"""`comargin audit`: suspicious labels as a table, a file or JSON."""

import csv
import json

import numpy as np
import pytest
from command import code_of, run

FAST = ("-m", "m3l", "--quiet")
WORDS = {"sea": "wave ship sail", "city": "street car tower", "sky": "cloud star moon"}


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    """A file of texts; the label of post 31 is wrong."""
    rng = np.random.default_rng(0)
    lines = ["number,body,tags"]
    for k in range(120):
        label = list(WORDS)[k % 3]
        text = " ".join(rng.choice(WORDS[label].split(), 4))
        given = "sky" if k == 31 else label
        lines.append(f"p{k},{text},{given}")
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def audit(posts, *options):
    return run("audit", posts, "--text", "body", "--labels", "tags", *FAST, *options)


def test_tables(posts):
    code, out, err = audit(posts, "--top", 5)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "posts: 120 rows, 3 labels; scores of m3l"
    start = lines.index("The most suspicious labels of rows:")
    assert {tuple(line.split()[:3]) for line in lines[start + 3 : start + 5]} == {
        ("31", "sky", "wrong"),
        ("31", "city", "missing"),
    }
    assert lines[-3].split()[:2] in ([name, str(n)] for name, n in (("sky", 41), ("city", 39), ("sea", 40)))


def test_csv_file_with_names_of_rows(posts, tmp_path):
    target = tmp_path / "found" / "issues.csv"
    code, out, _ = audit(posts, "--id", "number", "--top", 2, "-o", target)
    assert code == 0
    assert "p31" in out
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["problem"]) for row in rows].count(("p31", "wrong")) == 1
    assert list(rows[0]) == ["row", "label", "problem", "score", "probability", "exchanged_with"]


def test_json_lines_and_json_say_the_same(posts, tmp_path):
    target = tmp_path / "issues.jsonl"
    code, out, err = audit(posts, "--top", 4, "-o", target, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["cells"] == [json.loads(line) for line in target.read_text().splitlines()]
    assert len(document["cells"]) == 4
    assert [label["label"] for label in document["labels"]] == ["city", "sea", "sky"]
    assert document["model"] == "m3l"


def test_parameters_reach_the_model(posts):
    assert json.loads(audit(posts, "--json")[1]) != json.loads(audit(posts, "--json", "-p", "C=10")[1])


def test_names_of_rows_of_numbers(tmp_path):
    path = tmp_path / "numbers.csv"
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    rows = [f"r{k},{value:.3f},{int((value > 0) ^ (k == 7))},{int(value > 1)}" for k, value in enumerate(x)]
    path.write_text("\n".join(["name,x,label:high,label:top", *rows]) + "\n")
    code, out, _ = run("audit", path, "--drop", "name", "--id", "name", "--json", *FAST)
    assert code == 0
    assert {cell["row"] for cell in json.loads(out)["cells"]} == {f"r{k}" for k in range(60)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "issues.txt"), "--output must end in .csv or .jsonl, got 'issues.txt'"),
        (("--id", "nummer"), "nummer"),
        (("-p", "D=3"), "--param: there is no parameter 'D'"),
        (("--folds", "200"), "--folds 200, but there are only 120 rows"),
        (("-p", "C"), "--param C: write NAME=VALUE"),
    ],
)
def test_mistakes_are_told_in_flags(posts, options, message):
    code, out, err = audit(posts, *options)
    assert message in err
    assert (code, out) == (code_of(err), "")


def test_known_sets_have_no_names_of_rows():
    code, _, err = run("audit", "digits", "--id", "name", *FAST)
    assert code == 2
    assert "--id name: the rows of a known set have no names" in err
