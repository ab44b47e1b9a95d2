"""Tables, ranks and texts of a comparison whose cells are written by hand."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from comargin.comparison import Comparison, critical_difference
from comargin.comparison._results import FIXED
from comargin.comparison.diagram import diagram_figure, diagram_text


def cell(dataset, model, split, error="", versions="1", **measures):
    empty = dict.fromkeys(FIXED, "")
    return empty | {
        "dataset": dataset,
        "model": model,
        "split": split,
        "protocol": "2 folds",
        "error": error,
        "versions": versions,
        "fit_seconds": None if error else 1.0 + split,
        **dict.fromkeys(measures),
        **({} if error else measures),
    }


def comparison(values, measure="micro_f1", datasets=None, models="abc"):
    """Of values[dataset][model][split]; a value of None is a cell that failed."""
    names = datasets or [f"set {k}" for k in range(len(values))]
    cells = [
        cell(name, model, split, "" if value is not None else "ValueError: no", **{measure: value})
        for name, of_models in zip(names, values, strict=True)
        for model, of_splits in zip(models, of_models, strict=False)
        for split, value in enumerate(of_splits)
    ]
    return Comparison(cells, tuple(names), tuple(models[: len(values[0])]), (measure,))


TWO = [[[0.1, 0.3], [0.4, 0.6], [0.2, 0.2]], [[0.7, 0.9], [0.1, 0.1], [0.8, 0.8]]]


def test_mean_and_deviation():
    table = comparison(TWO).table("micro_f1")
    assert_allclose(table.mean, [[0.2, 0.5, 0.2], [0.8, 0.1, 0.8]])
    assert_allclose(table.deviation, [[np.sqrt(0.02), np.sqrt(0.02), 0], [np.sqrt(0.02), 0, 0]], atol=1e-12)
    assert_allclose(table.average_ranks, [2.0, 2.0, 2.0])  # 2.5 1 2.5, 1.5 3 1.5
    assert table.complete.all()


@pytest.mark.parametrize(("measure", "first"), [("micro_f1", 2.5), ("hamming_loss", 1.5), ("fit_seconds", 2.0)])
def test_the_direction_is_the_measures(measure, first):
    found = comparison(TWO[:1] + TWO[:1], measure if measure != "fit_seconds" else "micro_f1", ["x", "y"])
    assert_allclose(found.ranks(measure)["a"], first)


def test_one_data_set_is_ranked_over_splits():
    found = comparison(TWO[:1])
    blocks = found.blocks("micro_f1")
    assert (blocks.over, blocks.names) == ("splits", ("split 0", "split 1"))
    assert_allclose([found.ranks("micro_f1")[name] for name in "abc"], [2.5, 1.0, 2.5])
    assert "too small" in found.summary("micro_f1")
    assert found.to_text().count("too small") == 1
    assert "too small" not in comparison(TWO).to_text()


def test_failures_are_left_out_of_means_and_their_data_sets_of_tests():
    found = comparison([[[0.1, None], [0.4, 0.6]], *([[[0.5, 0.5], [0.2, 0.4]]] * 2)], models="ab")
    table = found.table("micro_f1")
    assert_allclose(table.mean[0], [0.1, 0.5])
    assert table.counts[0].tolist() == [1, 2]
    assert table.complete.tolist() == [[False, True], [True, True], [True, True]]
    assert found.blocks("micro_f1").names == ("set 1", "set 2")
    assert found.blocks("micro_f1").left_out == ("set 0",)
    assert found.ranks("micro_f1") == {"a": 1.0, "b": 2.0}
    text = found.to_text()
    assert "0.100?" in text
    assert "Left out: set 0." in text
    assert "a failed on set 0, split 1: ValueError: no" in text


def test_a_model_that_always_fails_leaves_the_others():
    found = comparison([[[None, None], [0.4, 0.6], [0.5, 0.7]]] * 2)
    assert found.blocks("micro_f1").models == ("b", "c")
    assert np.isnan(found.table("micro_f1").average_ranks[0])
    assert found.ranks("micro_f1") == {"b": 2.0, "c": 1.0}


def test_all_fail():
    found = comparison([[[None], [None]]] * 2, models="ab")
    assert found.ranks("micro_f1") == {}
    assert "No tests" in found.summary("micro_f1")
    assert found.to_markdown().count("ValueError: no") == 4
    with pytest.raises(ValueError, match="tests need at least two models on two data sets, there are 0 models"):
        found.friedman("micro_f1")


def test_a_split_without_a_value_for_anyone_is_not_defined():
    found = comparison([[[0.1, np.nan], [0.4, np.nan]]] * 2, models="ab")
    assert found.table("micro_f1").complete.all()
    assert found.blocks("micro_f1").names == ("set 0", "set 1")


def test_tests_are_those_of_the_blocks(rng):
    values = rng.uniform(size=(6, 3, 1))
    found = comparison(values.tolist())
    assert found.friedman("micro_f1").n_blocks == 6
    assert [pair.first + pair.second for pair in found.wilcoxon("micro_f1")] == ["ab", "ac", "bc"]
    ranks = critical_difference(np.argsort(np.argsort(-values[:, :, 0])) + 1.0, list("abc"))
    assert_allclose(found.critical_difference("micro_f1").ranks, ranks.ranks)


def test_measures_that_are_not_there():
    with pytest.raises(ValueError, match="was not recorded; did you mean 'micro_f1'"):
        comparison(TWO).table("micro_f")


def test_mixed_versions_are_told():
    found = comparison(TWO)
    found.cells[0]["versions"] = "comargin 9"
    assert any("different versions: comargin 9; 1" in note for note in found.notes())


def test_markdown():
    found = comparison(TWO, datasets=["x_y", "p|q"])
    expected = (
        r"micro\_f1, 2 folds. Higher is better."
        "\n\n"
        r"|   |              x\_y |              p\|q | rank |"
        "\n"
        "| - | ----------------: | ----------------: | ---: |\n"
        "| a |     0.200 \u00b1 0.141 | **0.800** \u00b1 0.141 | 2.00 |\n"
        "| b | **0.500** \u00b1 0.141 |     0.100 \u00b1 0.000 | 2.00 |\n"
        "| c |     0.200 \u00b1 0.000 | **0.800** \u00b1 0.000 | 2.00 |\n"
    )
    assert found.to_markdown().startswith(expected)


def test_one_data_set_has_its_measures_side_by_side():
    found = comparison(TWO[:1])
    text = found.to_markdown(["micro_f1", "fit_seconds"], digits=1)
    assert re.search(r"^\| +\| +micro\\_f1 \| +fit\\_seconds \|$", text, flags=re.MULTILINE)
    assert "Lower is better for fit\\_seconds, higher for the others." in text


def test_latex_is_escaped_and_balanced():
    text = comparison(TWO, datasets=["50%_a", "b&c"]).to_latex()
    assert r" & 50\%\_a & b\&c & rank \\" in text
    assert r"b & $\mathbf{0.500} \pm 0.141$ & $0.100 \pm 0.000$ & 2.00 \\" in text
    for environment in ("table", "tabular"):
        assert text.count(rf"\begin{{{environment}}}") == text.count(rf"\end{{{environment}}}") == 1
    assert all(line.startswith("%") for line in text.split(r"\end{table}")[1].splitlines() if line)


@pytest.mark.parametrize("digits", [-1, 2.5, True])
def test_bad_digits(digits):
    with pytest.raises(ValueError, match="digits must be"):
        comparison(TWO).to_text(digits=digits)


RANKS = np.array([[1, 2, 3, 4, 5]] * 6)


def test_text_diagram():
    found = critical_difference(RANKS, ["a", "bb", "c", "d", "e"])
    lines = diagram_text(found, "micro_f1", "data sets").splitlines()
    assert lines[0] == "Average ranks of 5 models on 6 data sets: micro_f1"
    assert lines[4:] == [
        "  1.00  a   |",
        "  2.00  bb  | |",
        "  3.00  c   | | |",
        "  4.00  d     | |",
        "  5.00  e       |",
    ]


def test_figure_has_models_bars_and_ruler():
    found = critical_difference(RANKS, ["<a>", "b", "c", "d", "e"])
    figure = diagram_figure(found, "micro_f1", "data sets")
    texts = [note.text for note in figure.layout.annotations]
    assert any("&lt;a&gt;" in text for text in texts)
    assert f"critical difference {found.difference:.2f}" in texts
    bars = [trace for trace in figure.data if trace.line.width == 5]
    assert [len(bar.x) for bar in bars] == [2, 2, 2]
    (points,) = (trace for trace in figure.data if trace.mode == "markers")
    assert_allclose(points.x, found.ranks)
    # Names on a side stand apart from each other.
    heights = [note.y for note in figure.layout.annotations if note.xanchor == "right"]
    assert np.diff(sorted(heights)).min() >= 20


def test_figure_of_a_comparison(rng):
    found = comparison(rng.uniform(size=(4, 3, 2)).tolist())
    assert "on 4 data sets: micro_f1" in found.critical_difference_figure("micro_f1").layout.title.text
    assert found.critical_difference_text("micro_f1").startswith("Average ranks of 3 models on 4 data sets")
    alone = comparison(rng.uniform(size=(1, 3, 4)).tolist())
    assert "on 4 splits of set 0" in alone.critical_difference_text("micro_f1")


def test_an_empty_file_is_no_comparison(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(",".join([*FIXED, "micro_f1"]) + "\n")
    with pytest.raises(ValueError, match="holds no finished cell"):
        Comparison.read(path)


def test_str_is_the_text():
    found = comparison(TWO)
    assert str(found) == found.to_text()
    assert re.search(r"^b +0\.500 \+- 0\.141\*", str(found), flags=re.MULTILINE)
