"""Curves of fits and rounds: every number that is given is drawn, and nothing else."""

import itertools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from comargin import CGMClassifier, M3LClassifier
from comargin.core.result import Checkpoint
from comargin.report import label_graph_figure, objective_figure, rounds_figure

FAST = [Checkpoint(1, 0.1, 5.0, 1.0), Checkpoint(3, 0.3, 4.0, 3.0), Checkpoint(9, 0.8, 3.5, 3.5)]
SLOW = [Checkpoint(2, 0.5, 6.0, -2.0), Checkpoint(4, 1.5, 5.0, 4.0)]


class Round(NamedTuple):
    n_cliques: int
    objective: float
    gap: float
    hamming: float
    seconds: float


ROUNDS = [Round(0, 0.9, 0.2, 0.1, 1.0), Round(2, 0.5, 0.1, 0.05, 2.0), Round(4, 0.4, 0.0, 0.02, 4.5)]


@pytest.mark.parametrize("x", ["n_iter", "seconds"])
def test_primal_and_dual_of_each_fit_against_x(x):
    figure = objective_figure({"fast": FAST, "slow": tuple(SLOW)}, x=x)
    assert [trace.name for trace in figure.data] == ["fast", "fast, dual", "slow", "slow, dual"]
    for (primal, dual), history in zip((figure.data[:2], figure.data[2:]), (FAST, SLOW), strict=True):
        assert list(primal.x) == list(dual.x) == [getattr(point, x) for point in history]
        assert list(primal.y) == [point.primal for point in history]
        assert list(dual.y) == [point.dual for point in history]
        assert (primal.line.dash, dual.line.dash) == ("solid", "dot")
        assert primal.line.color == dual.line.color
        assert primal.legendgroup == dual.legendgroup
        assert (primal.showlegend, dual.showlegend) == (True, False)
    assert figure.data[0].line.color != figure.data[2].line.color
    assert figure.layout.title.text == f"Objective against {'epochs' if x == 'n_iter' else 'seconds'}"
    assert figure.data[0].hovertext[1] == "<b>fast</b><br>epoch 3, 0.3 s<br>primal 4<br>dual 3<br>gap 1"


def test_gap_is_relative_logarithmic_and_stops_at_rounding():
    figure = objective_figure({"fast": FAST, "slow": SLOW}, show="gap")
    assert len(figure.data) == 2
    assert figure.layout.yaxis.type == "log"
    assert list(figure.data[0].y) == pytest.approx([0.8, 0.25, np.finfo(float).eps])
    assert list(figure.data[1].y) == pytest.approx([8 / 6, 0.2])
    assert figure.layout.yaxis.dtick == 1
    assert objective_figure({"slow": SLOW}, show="gap").layout.yaxis.dtick is None  # less than a power of ten


def test_first_duals_do_not_flatten_the_picture():
    deep = [Checkpoint(0, 0.0, 10.0, -1000.0), Checkpoint(1, 0.1, 4.0, 2.0), Checkpoint(2, 0.2, 3.0, 2.9)]
    low, high = objective_figure({"a": deep}).layout.yaxis.range
    # From 10 down to the last dual 2.9, as much again below, and 5 % of that at both ends.
    assert (low, high) == pytest.approx((-4.2 - 0.71, 10 + 0.71))
    near = [Checkpoint(1, 0.1, 5.0, 1.5), Checkpoint(2, 0.2, 3.0, 2.9)]
    low, high = objective_figure({"a": near}).layout.yaxis.range
    assert (low, high) == pytest.approx((1.5 - 0.175, 5 + 0.175))
    low, high = objective_figure({"a": [Checkpoint(1, 0.1, 2.0, 2.0)]}).layout.yaxis.range
    assert low < 2.0 < high


def test_values_that_are_not_numbers_are_left_out():
    history = [Checkpoint(1, 0.1, 2.0, -np.inf), Checkpoint(2, 0.2, 1.0, 0.5), Checkpoint(3, 0.3, 0.0, 0.0)]
    assert list(objective_figure({"a": history}).data[1].y) == [None, 0.5, 0.0]
    assert list(objective_figure({"a": history}, show="gap").data[0].y) == [None, 0.5, None]


def test_fitted_estimators_give_their_history():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 5)), rng.integers(0, 2, size=(40, 3))
    model = M3LClassifier(C=0.1).fit(X, Y)
    figure = objective_figure({"M3L": model, "again": model.history_})
    assert list(figure.data[0].y) == [point.primal for point in model.history_]
    assert figure.data[0].y == figure.data[2].y
    assert figure.data[0].y[-1] == model.objective_


def test_clique_generation_is_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(int)
    model = CGMClassifier(alpha=0.01, max_rounds=2, tol=0.1).fit(X, Y)
    figure = rounds_figure(model.rounds_)
    assert list(figure.data[0].x) == [record.n_cliques for record in model.rounds_]
    assert list(figure.data[2].y) == [record.hamming for record in model.rounds_]
    assert len(objective_figure({"CGM": model}).data[0].x) == len(model.history_)
    n_drawn = sum(len(trace.customdata or ()) for trace in label_graph_figure(model.label_graph_).data)
    assert n_drawn == 4


def test_more_fits_than_colours_are_told_apart():
    figure = objective_figure({str(k): SLOW for k in range(20)}, show="gap")
    assert len({(trace.line.color, trace.marker.symbol) for trace in figure.data}) == 20


def test_one_checkpoint_is_seen():
    assert "markers" in objective_figure({"a": FAST[:1]}).data[0].mode


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        ({}, "fits must be a non-empty mapping"),
        (FAST, "fits must be a non-empty mapping from names to fitted estimators or histories, got a list"),
        ({"a": []}, r"fits\['a'\] must be a non-empty sequence of records with n_iter, .*got an empty one"),
        ({"a": M3LClassifier()}, r"fits\['a'\] has no history_: it must be a fitted estimator"),
        ({"a": 3}, r"fits\['a'\] must be a non-empty sequence.*got a int"),
        ({"a": "text"}, r"fits\['a'\] must be a non-empty sequence.*got a str"),
        ({"a": [(1, 0.1, 2.0)]}, r"fits\['a'\].*record 0, a tuple, has no n_iter, seconds, primal, dual"),
        ({"a": [SimpleNamespace(n_iter=1, seconds=0.0, primal=1.0)]}, "record 0, a SimpleNamespace, has no dual"),
    ],
)
def test_bad_fits(fits, message):
    with pytest.raises(ValueError, match=message):
        objective_figure(fits)


def test_bad_options():
    with pytest.raises(ValueError, match="x must be one of 'n_iter', 'seconds', got 'epochs'"):
        objective_figure({"a": FAST}, x="epochs")
    with pytest.raises(ValueError, match="show must be one of 'objective', 'gap', got True"):
        objective_figure({"a": FAST}, show=True)


def test_rounds_against_cliques():
    figure = rounds_figure(ROUNDS)
    objective, bound, hamming = figure.data
    for trace in figure.data:
        assert list(trace.x) == [0, 2, 4]
    assert list(objective.y) == [0.9, 0.5, 0.4]
    assert list(bound.y) == pytest.approx([0.7, 0.4, 0.4])
    assert bound.line.dash == "dot"
    assert (objective.xaxis, bound.xaxis, hamming.xaxis) == ("x", "x", "x2")
    assert list(hamming.y) == [0.1, 0.05, 0.02]
    assert objective.text[2] == "<b>round 2</b><br>Objective 0.4<br>4 cliques, 4.5 s"
    assert figure.layout.xaxis.dtick == 1


def test_measures_have_their_own_panels():
    measures = {"test micro-F1": [0.7, np.nan, 0.9], "test Hamming": np.array([1, 0, 0]), "macro-F1": (0.5, 0.6, 0.7)}
    figure = rounds_figure(ROUNDS, measures, title="scene")
    by_name = {trace.name: trace for trace in figure.data}
    assert list(by_name["test micro-F1"].y) == [0.7, None, 0.9]
    assert list(by_name["test Hamming"].y) == [1, 0, 0]
    assert figure.layout.title.text == "scene"
    panels = [note.text for note in figure.layout.annotations]
    assert panels == ["Objective", "Hamming loss, training", "test micro-F1", "test Hamming", "macro-F1"]
    # Five panels: three above, two below, none over another.
    boxes = []
    for k in range(1, 6):
        suffix = "" if k == 1 else str(k)
        boxes.append((figure.layout[f"xaxis{suffix}"].domain, figure.layout[f"yaxis{suffix}"].domain))
    assert len({y for _, y in boxes}) == 2
    assert len({x for x, _ in boxes}) == 3
    assert len(set(boxes)) == 5
    assert boxes[0][1][0] > boxes[3][1][1]
    assert boxes[0][0][1] < boxes[1][0][0]


def test_panels_stand_side_by_side():
    figure = rounds_figure(ROUNDS, {"a": [1, 2, 3], "b": [1, 2, 3]})
    domains = [figure.layout[f"xaxis{suffix}"].domain for suffix in ("", "2", "3", "4")]
    assert domains[0][0] == 0
    assert domains[3][1] == pytest.approx(1)
    for left, right in itertools.pairwise(domains):
        assert left[1] < right[0]
    assert {figure.layout[f"yaxis{suffix}"].domain for suffix in ("", "2", "3", "4")} == {(0, 1)}


def test_names_are_shown_as_text():
    figure = rounds_figure(ROUNDS, {"F1 <test> & $x$": [1, 2, 3]})
    assert figure.layout.annotations[-1].text == "F1 &lt;test&gt; &amp; &#36;x&#36;"
    figure = objective_figure({"alpha<1": FAST}, title="<b>")
    assert figure.data[0].name == "alpha&lt;1"
    assert figure.data[0].hovertext[0].startswith("<b>alpha&lt;1</b>")
    assert figure.layout.title.text == "&lt;b&gt;"


def test_one_round():
    assert list(rounds_figure(ROUNDS[:1]).data[0].y) == [0.9]


def test_bad_rounds_and_measures():
    with pytest.raises(ValueError, match=r"rounds must be a non-empty sequence of records.*an empty one"):
        rounds_figure([])
    with pytest.raises(
        ValueError, match=r"rounds must be .*record 0, a Checkpoint, has no n_cliques, objective, hamming"
    ):
        rounds_figure(FAST)
    with pytest.raises(ValueError, match=r"measures\['f1'\] must be 3 numbers, one per round, got shape \(2,\)"):
        rounds_figure(ROUNDS, {"f1": [0.1, 0.2]})
    with pytest.raises(ValueError, match=r"measures\['f1'\] must be 3 numbers"):
        rounds_figure(ROUNDS, {"f1": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="measures must be a non-empty mapping"):
        rounds_figure(ROUNDS, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="measures must not be named 'Objective'"):
        rounds_figure(ROUNDS, {"Objective": [1, 2, 3]})
