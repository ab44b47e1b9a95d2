"""``comargin demo``: every learner on built-in data, on one screen; and ``comargin warmup``, which it begins with."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

from ._console import remark, step_progress
from ._options import Quiet

if TYPE_CHECKING:
    import numpy as np
    from rich.panel import Panel
    from rich.table import Table

    from ..data import Dataset

_COLUMNS = {  # measure: heading and format
    "hamming_loss": ("wrong\nlabels", "{:.1%}"),
    "subset_accuracy": ("all\nright", "{:.1%}"),
    "micro_f1": ("micro-F1", "{:.3f}"),
    "ranking_loss": ("rank\nloss", "{:.3f}"),
}
_PREDICTING = "M3L, rbf kernel"
_SMALLEST_GAP = 1e-9  # below it is rounding
_PATIENCE = 5.0  # seconds; loading compiled loops takes less


class Fitted(NamedTuple):
    """A model of the demo on the new images."""

    model: Any
    seconds: float
    predicted: np.ndarray
    measures: dict[str, float]


def warmup(quiet: Quiet = False) -> None:
    r"""Compile the loops of all learners, once after an installation or upgrade.

    They are kept on disk. Without this, the first fit of each learner compiles its own, which takes some seconds.

    \b
    comargin warmup     # a minute or two; later runs find everything there
    """
    from ..training import warmup as compile_all

    start = time.perf_counter()
    with step_progress(quiet) as show:
        n_compiled = compile_all(show)
    seconds = time.perf_counter() - start
    if n_compiled:
        typer.echo(f"Compiled {n_compiled} loops in {seconds:.0f} s; they are kept on disk.")
    else:
        typer.echo("All loops are compiled already.")


def demo(
    folder: Annotated[Path, Option("--folder", help="Folder for report.html and graph.svg; it is made.")] = Path(
        "comargin-demo"
    ),
    quiet: Quiet = False,
) -> None:
    r"""Train every learner on built-in data, certify and compare: no download, under a minute.

    The first run compiles all loops before, which takes a minute or two more. Writes a page about one of the
    models and a picture of the label graph it learned.

    \b
    comargin demo
    comargin demo --folder /tmp/demo
    """
    from rich.columns import Columns
    from rich.console import Console

    from .. import __version__
    from ..data import load
    from ..graphs import smoothed_correlation
    from ..training import warmup as compile_all

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--folder {folder} is a file")
    console = Console(highlight=False, emoji=False)
    train, test = (_scaled(load("digits", split=part)) for part in ("train", "test"))
    console.print(
        f"[bold]comargin {__version__}[/]  Task: from an 8 x 8 image of a handwritten digit, tell which of the seven "
        f"segments (a to g) of a display are lit.\n{train.Y.shape[0]} images to learn from, {test.Y.shape[0]} new ones "
        "to be judged by. Seven labels, several at a time, far from independent."
    )
    remark("The first run compiles all loops: a minute or two, once.", quiet)
    with step_progress(quiet, _PATIENCE) as show:
        compile_all(lambda what, done, total: show(f"loops of {what}", done, total))
    fitted = _fit_all(train, test, quiet)

    drawn, predicting = fitted["CGM, its own graph"], fitted[_PREDICTING]
    model = fitted["M3L"].model
    share = model.duality_gap_ / model.objective_
    console.print(
        f"\n[bold]Certified.[/] M3L's objective is {model.objective_:.3f}, and its dual proves that no weights reach "
        f"less than {model.dual_objective_:.3f}: at most {100 * share:.1g} % from the optimum, after {model.n_iter_} "
        "passes."
    )
    correlations = smoothed_correlation(train.Y, label_names=train.label_names).top_edges(4)
    pairs = ",  ".join(f"{edge.source}-{edge.target} {edge.weight:+.2f}" for edge in correlations)
    console.print(f"\n[bold]Labels that go together[/] (correlation in the training labels): {pairs}")
    edges = ",  ".join("-".join(train.label_names[label] for label in clique) for clique in drawn.model.cliques_)
    console.print(f"Edges that CGM learned, in order: {edges}")
    console.print(f"\n[bold]Three new images[/] and the segments predicted for them ({_PREDICTING}):")
    panels = [_picture(test, predicting.predicted, row, console.options.ascii_only) for row in (0, 1, 4)]
    console.print(Columns(panels, padding=(0, 1)))
    console.print()
    console.print(_table(fitted))
    console.print(
        "Wrong labels and rank loss: lower is better; the others: higher is better. Gap: the objective is at most so "
        "much above the optimum, relative to it; PrML's is that of its last convex step, and scikit-learn does not "
        "tell. Parameters were chosen on folds of the images to learn from.\n"
        "M3L, whole sets: M3L's probabilities, decided by the label sets that occur.\n"
        "scikit-learn's OneVsRestClassifier: * LogisticRegression, ** SVC.",
        style="dim",
    )
    for line in _written(drawn.model, train, test, folder):
        console.print(line, soft_wrap=True, markup=False)


def models_of_the_demo() -> dict[str, Any]:
    """All models, with the parameters that `comargin.tune` finds on three folds of the training images."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    from .. import (
        CGMClassifier,
        DecisionClassifierCV,
        LSG21Classifier,
        M3LClassifier,
        PrBRClassifier,
        PrMLClassifier,
        RankCVMClassifier,
        RankSVMClassifier,
        StructuredSVMClassifier,
    )

    return {
        "the usual segments": DummyClassifier(strategy="prior"),
        "scikit-learn *": OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=1000)),
        "M3L": M3LClassifier(C=1.0, tol=1e-6, random_state=0),
        "M3L, whole sets": DecisionClassifierCV(
            M3LClassifier(C=10.0, loss="logistic", random_state=0), aim="subset_accuracy", random_state=0
        ),
        "LSG21": LSG21Classifier(alpha=0.1),
        "PrBR": PrBRClassifier(C=10.0, gamma2=10.0, random_state=0),
        "PrML": PrMLClassifier(C=1.0, gamma2=1.0, random_state=0),
        "CGM, its own graph": CGMClassifier(alpha=0.001, random_state=0),
        "structured SVM, tree": StructuredSVMClassifier(alpha=0.01, graph="tree", random_state=0),
        "CGM, rbf": CGMClassifier(
            alpha=0.001, kernel="rbf", gamma=0.3, cliques_per_round=21, max_cliques=21, random_state=0
        ),
        "SVC, rbf **": OneVsRestClassifier(SVC(C=1.0, gamma=0.3)),
        "Rank-CVM, rbf": RankCVMClassifier(C=100.0, gamma=0.3, random_state=0),
        "Rank-SVM, rbf": RankSVMClassifier(C=10.0, gamma=0.3),
        "M3L, rbf kernel": M3LClassifier(C=10.0, kernel="rbf", gamma=0.3, random_state=0),
    }


def _scaled(dataset: Dataset) -> Dataset:
    """Grey values from 0 to 1."""
    import numpy as np

    return replace(dataset, X=np.asarray(dataset.X) / 16.0)


def _fit_all(train: Dataset, test: Dataset, quiet: bool) -> dict[str, Fitted]:
    from ..metrics import evaluate, scores_of

    models = models_of_the_demo()
    fitted = {}
    with step_progress(quiet) as show:
        for done, (name, model) in enumerate(models.items()):
            show(f"training {name}", done, len(models))
            start = time.perf_counter()
            model.fit(train.X, train.Y)
            seconds = time.perf_counter() - start
            predicted = model.predict(test.X)
            fitted[name] = Fitted(model, seconds, predicted, evaluate(test.Y, scores_of(model, test.X), predicted))
    return fitted


def _table(fitted: dict[str, Fitted]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    headings = ("", *(heading for heading, _ in _COLUMNS.values()), "gap", "seconds")
    table = Table(*headings, title="On the new images", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[1:]:
        column.justify, column.vertical = "right", "bottom"
    for name, one in fitted.items():
        shown = [form.format(one.measures[measure]) for measure, (_, form) in _COLUMNS.items()]
        table.add_row(name, *shown, _gap(one.model), f"{one.seconds:.2f}")
    return table


def _gap(model: Any) -> str:
    model = getattr(model, "estimator_", model)
    if not hasattr(model, "duality_gap_"):
        return "-"
    share = model.duality_gap_ / abs(model.objective_)
    return f"{share:.0e}" if share >= _SMALLEST_GAP else f"< {_SMALLEST_GAP:.0e}"


def _written(model: Any, train: Dataset, test: Dataset, folder: Path) -> list[str]:
    """Write the page and the picture, and return the lines to print about them."""
    from ..core.files import AtomicFiles
    from ..graphs import LabelGraph
    from ..report import label_graph_svg, model_report, save_report

    try:
        meta = {"trained on": f"digits, {train.Y.shape[0]} images, grey values from 0 to 1"}
        page = model_report(model, test, title="Segments of a display, by CGM", meta=meta)
        graph = LabelGraph(model.label_graph_.weights, train.label_names)
        svg = label_graph_svg(graph, frequencies=train.Y.mean(axis=0), title="Segments that CGM joined")
    except ImportError as error:  # an extra that the other commands do not need
        return [f"\nNo page and no picture of the label graph: {error}"]
    graph_file = folder / "graph.svg"
    report_file = save_report(page, folder / "report.html")
    with AtomicFiles() as files:
        files.open(graph_file).write(svg)
    return [f"\n{report_file}: a page about CGM; open it in a browser", f"{graph_file}: the label graph CGM learned"]


def _picture(dataset: Dataset, predicted: np.ndarray, row: int, plain: bool) -> Panel:
    """The image beside a display of the predicted segments; the title counts the wrong ones."""
    import numpy as np
    from rich.panel import Panel

    from ..core.wording import counted

    shades = " .:oO@"
    image = np.asarray(dataset.X)[row].reshape(8, 8)
    left = ["".join(shades[int(v * (len(shades) - 1))] * 2 for v in line) for line in image]
    right = _display(dict(zip(dataset.label_names, predicted[row], strict=True)), plain)
    lines = [f"{a} {b}" for a, b in zip(left, right, strict=True)]
    n_wrong = int(np.count_nonzero(predicted[row] != dataset.Y[row]))
    wrong = f" ({counted(n_wrong, 'segment')} wrong)" if n_wrong else ""
    title = f"a {dataset.extra['y'][row]}{wrong}"
    # Panel leaves no room for its title and the frame around it.
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
