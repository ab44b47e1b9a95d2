"""``comargin demo``: the main job on built-in data, told in one screen."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from .. import CGMClassifier, M3LClassifier, RankCVMClassifier, __version__
from ..data import Dataset, load
from ..graphs import smoothed_correlation
from ..metrics import evaluate, scores_of
from ..thresholds import ThresholdClassifierCV

_COLUMNS = {  # measure: heading
    "hamming_loss": "wrong labels",
    "subset_accuracy": "all right",
    "micro_f1": "micro-F1",
    "ranking_loss": "rank loss",
}


def run_demo() -> None:
    """Train on images of digits, whose labels are the lit segments of a display, and compare with baselines."""
    console = Console(highlight=False)
    train, test = load("digits", split="train"), load("digits", split="test")
    X_train, X_test = np.asarray(train.X) / 16.0, np.asarray(test.X) / 16.0
    console.print(
        f"[bold]comargin {__version__}[/]  Task: from an 8 x 8 image of a handwritten digit, tell which of the seven "
        f"segments (a to g) of a display are lit.\n{X_train.shape[0]} images to learn from, {X_test.shape[0]} new ones "
        "to be judged by. Seven labels, several at a time, far from independent."
    )
    console.print("\nThe first run compiles its loops and takes some seconds longer.", style="dim")

    m3l = M3LClassifier(C=1.0, tol=1e-6, random_state=0)
    cgm = CGMClassifier(alpha=0.01, random_state=0)
    models = {
        "the usual segments": DummyClassifier(strategy="prior"),
        "scikit-learn *": OneVsRestClassifier(LogisticRegression(max_iter=1000)),
        "M3L": m3l,
        "M3L + thresholds": ThresholdClassifierCV(M3LClassifier(C=1.0, tol=1e-6, random_state=0)),
        "CGM, its own graph": cgm,
        "SVC, rbf **": OneVsRestClassifier(SVC()),
        "Rank-CVM, rbf": RankCVMClassifier(C=32.0, gamma=0.25, random_state=0),
        "M3L, rbf kernel": M3LClassifier(C=1.0, kernel="rbf", label_correlation="train"),
    }
    table = Table(
        "",
        *_COLUMNS.values(),
        "seconds",
        title="On the new images",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in table.columns[1:]:
        column.justify = "right"
    predicted: Any = None
    for kernel in ("linear", "rbf"):  # compile before the clock runs
        M3LClassifier(kernel=kernel, tol=1e-6, random_state=0).fit(X_train[:20], train.Y[:20])
    RankCVMClassifier(random_state=0).fit(X_train[:40], train.Y[:40])
    CGMClassifier(alpha=0.01, max_cliques=2, tol=1e-6, random_state=0).fit(X_train[:40], train.Y[:40])
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X_train, train.Y)
        seconds = time.perf_counter() - start
        predicted = model.predict(X_test)
        measures = evaluate(test.Y, scores_of(model, X_test), predicted)
        table.add_row(name, *(_shown(measure, measures[measure]) for measure in _COLUMNS), f"{seconds:.2f}")

    console.print(f"\n[bold]Certified.[/] {_certificate(m3l)}")
    console.print(f"\n[bold]Labels that go together[/] (correlation in the training labels): {_pairs(train)}")
    names = train.label_names
    edges = ",  ".join("-".join(names[label] for label in clique) for clique in cgm.cliques_)
    console.print(f"Edges that CGM learned, in order: {edges}")
    plain = console.options.ascii_only
    console.print("\n[bold]Three new images[/] and the segments predicted for them:")
    console.print(Columns([_picture(test, predicted, row, plain) for row in (0, 1, 4)], padding=(0, 1)))
    console.print()
    console.print(table)
    console.print(
        "Wrong labels and rank loss: lower is better; the others: higher is better.\n"
        "scikit-learn's OneVsRestClassifier: * LogisticRegression(), the usual choice; ** SVC().",
        style="dim",
    )


def _shown(measure: str, value: float) -> str:
    return f"{value:.1%}" if measure in ("hamming_loss", "subset_accuracy") else f"{value:.3f}"


def _certificate(model: M3LClassifier) -> str:
    share = model.duality_gap_ / model.objective_
    return (
        f"M3L's objective is {model.objective_:.3f}, and its dual proves that no weights reach less than "
        f"{model.dual_objective_:.3f}: at most {100 * share:.1g} % from the optimum, after {model.n_iter_} passes."
    )


def _pairs(dataset: Dataset) -> str:
    graph = smoothed_correlation(dataset.Y, label_names=dataset.label_names)
    return ",  ".join(f"{edge.source}-{edge.target} {edge.weight:+.2f}" for edge in graph.top_edges(4))


def _picture(dataset: Dataset, predicted: np.ndarray, row: int, plain: bool) -> Panel:
    """The image beside the display with the predicted segments lit, which the title compares with the digit's."""
    shades = " .:oO@"
    image = np.asarray(dataset.X)[row].reshape(8, 8)
    left = ["".join(shades[int(v / 16.0 * (len(shades) - 1))] * 2 for v in line) for line in image]
    right = _display(dict(zip(dataset.label_names, predicted[row], strict=True)), plain)
    lines = [f"{a} {b}" for a, b in zip(left, right, strict=True)]
    n_wrong = int(np.count_nonzero(predicted[row] != dataset.Y[row]))
    wrong = "" if n_wrong == 0 else f" ({n_wrong} segment{'s' if n_wrong > 1 else ''} wrong)"
    title = f"a {dataset.extra['y'][row]}{wrong}"
    # Panel does not make room for its title and the frame around it.
    return Panel("\n".join(lines), title=title, width=max(len(lines[0]) + 2, len(title) + 6), padding=0)


def _display(on: dict[str, int], plain: bool) -> list[str]:
    """Eight lines of a seven-segment display: a top, b and c right, d bottom, e and f left, g middle."""
    across, upright = "-|" if plain else "\u2501\u2503"

    def bar(name: str) -> str:
        return f" {across * 4} " if on[name] else " " * 6

    def sides(left: str, right: str) -> str:
        return f"{upright if on[left] else ' '}    {upright if on[right] else ' '}"

    upper, lower = sides("f", "b"), sides("e", "c")
    return [bar("a"), upper, upper, bar("g"), lower, lower, bar("d"), " " * 6]
