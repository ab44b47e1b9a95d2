"""The loop around solvers: when it certifies, when it stops, what it shows."""

import io
import itertools
import sys

import pytest

from comargin.core.loop import ROUNDING, Control, run_loop, tolerance
from comargin.core.result import Checkpoint, Status


class Halving:
    """A solver whose gap halves at each step; the dual is 1."""

    def __init__(self, gap=1.0, estimates=False):
        self.gap, self.estimates, self.certified = gap, estimates, 0

    def step(self):
        self.gap /= 2
        return self.gap if self.estimates else None

    def certify(self):
        self.certified += 1
        return 1.0 + self.gap, 1.0


def test_stops_at_the_relative_tolerance():
    solver = Halving(estimates=True)
    status, history, tol_abs = run_loop(solver.step, solver.certify, Control(1e-3, 1000))
    assert status is Status.CONVERGED
    assert history[-1].gap <= tol_abs == pytest.approx(1e-3 * history[-1].primal)
    # The estimate calls for a certificate at 2^-9 < 1e-3 * 2 (the primal known then), which asks for one pass more.
    assert [c.n_iter for c in history] == [0, 9, 10]


def test_certifies_at_growing_intervals_without_estimate():
    solver = Halving(gap=1e6)
    _, history, _ = run_loop(solver.step, solver.certify, Control(1e-9, 1000), check_every=4)
    assert [c.n_iter for c in history] == [0, 4, 10, 19, 32, 52]


def test_a_long_run_goes_on_showing_where_it_is():
    falling = iter(range(10**6, 0, -1))
    _, history, _ = run_loop(lambda: None, lambda: (float(next(falling)), 0.0), Control(0.0, 2000), check_every=4)
    distances = [b.n_iter - a.n_iter for a, b in itertools.pairwise(history)]
    assert max(distances) == 100
    assert distances[-2] == 100


def test_max_iter_is_kept_and_certified():
    solver = Halving()
    status, history, _ = run_loop(solver.step, solver.certify, Control(1e-12, 7))
    assert status is Status.MAX_ITER
    assert history[-1].n_iter == 7


def test_stalls_instead_of_running_on():
    status, history, _ = run_loop(lambda: None, lambda: (2.0, 1.0), Control(1e-6, 10**9))
    assert status is Status.STALLED
    assert len(history) == 2


def test_floor_for_rounding():
    assert tolerance(0.0, -2.0) == 2.0 * ROUNDING
    assert tolerance(1e-3, 0.0005) == pytest.approx(5e-7)
    status, _, _ = run_loop(lambda: 0.0, lambda: (1.0, 1.0 - 1e-15), Control(0.0, 10))
    assert status is Status.CONVERGED


def test_callback_sees_checkpoints_and_stops():
    seen = []

    def callback(point):
        seen.append(point)
        return len(seen) == 2

    solver = Halving(gap=1e9)
    status, history, _ = run_loop(solver.step, solver.certify, Control(1e-9, 1000, callback=callback))
    assert status is Status.STOPPED
    assert seen == list(history)
    assert isinstance(seen[0], Checkpoint)
    assert seen[0].gap == pytest.approx(1e9)


def test_not_finite_is_an_error_with_advice():
    with pytest.raises(FloatingPointError, match="scale the features"):
        run_loop(lambda: None, lambda: (float("nan"), 0.0), Control(1e-3, 10))


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_shown_and_closed_on_interrupt(monkeypatch, terminal):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    if terminal:
        monkeypatch.setenv("TERM", "xterm")
    solver = Halving(gap=1e6)
    calls = iter(range(100))

    def step():
        if next(calls) == 12:
            raise KeyboardInterrupt
        return solver.step()

    with pytest.raises(KeyboardInterrupt):
        run_loop(step, solver.certify, Control(1e-9, 1000, verbose=1, title="halving"))
    text = stream.getvalue()
    assert "halving" in text
    assert "gap" in text
    if terminal:
        assert text.rstrip().endswith("\x1b[?25h") or "\x1b[?25h" in text  # the cursor is back


def test_silent_by_default(capsys):
    solver = Halving()
    run_loop(solver.step, solver.certify, Control(1e-3, 1000))
    assert capsys.readouterr() == ("", "")
