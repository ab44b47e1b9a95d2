"""``comargin train``: from labelled rows to a tagger file."""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ._console import INTERRUPTED, check_target, console_for, file_size, measures_table, print_json, remark, say
from ._options import (
    Aim,
    AsJson,
    Criterion,
    DataHome,
    Quiet,
    Source,
    Thresholds,
    as_aim,
    reads_a_file,
)

if TYPE_CHECKING:
    from ..data import Dataset
    from ..training import ModelRecipe, Tagger

_SHOWN = (  # in the table at the end; comargin evaluate shows all measures
    *("hamming_loss", "subset_accuracy", "example_f1", "micro_f1", "macro_f1", "ranking_loss", "average_precision"),
    *("precision_at_1", "precision_at_3", "precision_at_5"),
)
_WORDS = {"true": True, "false": False, "none": None}
_ROUNDING = 1e-11  # relative gaps below it are rounding errors, and may be negative


def _list_models(wanted: bool) -> None:
    if not wanted:
        return
    from rich.table import Table
    from rich.text import Text

    from ..training import get_model, model_names

    table = Table("model", "", box=None, show_header=False, pad_edge=False)
    for name in model_names():
        recipe = get_model(name)
        note = "" if _has_file(recipe) else " (no tagger file: compare only)"
        table.add_row(name, Text(recipe.description + note))
    console_for().print(table)
    raise typer.Exit


ListModels = Annotated[
    bool, Option("--list-models", is_eager=True, callback=_list_models, help="Show all models and exit.")
]


@reads_a_file
def train(
    data: Source,
    *,
    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            help="auto (the default), m3l (with -p, --grid, --criterion or a rule), cgm, rank-cvm ...: "
            "see --list-models.",
        ),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Tagger file to write (default: name of the data, .cmg).")
    ] = None,
    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=VALUE", help="A parameter, such as C=0.1; may be repeated."),
    ] = None,
    tune: Annotated[bool, Option(help="Search the parameters that -p does not give, on folds.")] = True,
    grid: Annotated[
        list[str] | None, Option(metavar="NAME=A,B", help="Values to search, such as C=0.1,1,10; may be repeated.")
    ] = None,
    budget: Annotated[
        str | None, Option(help='When auto ends its search: 90s, 5m, 1h, or "20 fits" (default: when nothing helps).')
    ] = None,
    criterion: Criterion = None,
    folds: Annotated[int, Option(min=2, help="Folds of the training rows, for parameters and cuts.")] = 3,
    thresholds: Thresholds = "aim",
    aim: Aim = None,
    guarantee: Annotated[
        str | None,
        Option(help="A promise, such as 'recall >= 0.9' or 'precision of sports >= 0.8' or 'false tags per row <= 1'."),
    ] = None,
    confidence: Annotated[float, Option(help="Probability with which the promise holds.")] = 0.9,
    test: Annotated[
        Path | None, Option(help="Labelled rows to measure the tagger on, read as the training file is.")
    ] = None,
    holdout: Annotated[
        float | None, Option(help="Share of the rows kept for measuring, such as 0.2: not trained on.")
    ] = None,
    split: Annotated[
        str | None, Option(help="Rows of a known set: all, train or test (default: train where published).")
    ] = None,
    checkpoint: Annotated[
        Path | None, Option(help="Folder for the state of a long training; the same command goes on from it.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of everything.")] = 0,
    jobs: Annotated[int, Option(help="Threads, -1 for all cores; the tagger is the same for any number.")] = -1,
    list_models: ListModels = False,
    data_home: DataHome = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    reading: dict[str, Any],
) -> None:
    r"""Train a tagger and write it to one file.

    Without -m several models are tried, and the best are blended. Texts, and sparse counts, become TF-IDF; other
    features are standardised. Parameters are searched on folds, and so are probabilities and the label sets that are
    best for --aim. Known sets are measured on their published test rows.

    \b
    comargin train posts.csv --text body --labels tags --sep ";" -o tagger.cmg
    comargin train scene --aim subset_accuracy --budget 5m
    comargin train yeast -m rank-cvm -p C=4 -o yeast.cmg
    comargin train posts.csv --holdout 0.2 --grid C=0.1,1,10 --criterion micro_f1
    comargin train posts.csv --guarantee "recall >= 0.9"
    """
    from ..data.sources import rows_to_learn
    from ..training import clear_checkpoint, get_model
    from ..training import train as train_tagger
    from ..training.building import DEFAULT_AIM, default_model

    silent = quiet or as_json
    recipe = get_model(model or default_model(param, grid, criterion, thresholds != "aim"))
    if not _has_file(recipe):
        raise ValueError(
            f"--model {recipe.name}: its declaration does not say how it is saved, it can only be compared (comargin "
            "compare); --list-models shows which can be trained"
        )
    params = {name: typed_value(text) for name, text in assignments(param, "--param").items()}
    values = {name: [typed_value(one) for one in text.split(",")] for name, text in assignments(grid, "--grid").items()}
    target = Path(f"{Path(data).name.split('.')[0]}.cmg") if output is None else output
    check_target("--output", target, "tagger.cmg")
    if checkpoint is not None and target.resolve().parent == checkpoint.resolve():
        raise ValueError(f"--output: {target} lies in the folder of --checkpoint, which is emptied; name another file")
    kept = reading | ({"missing": "nan"} if reading.get("missing") == "mean" else {})  # the tagger learns the means
    dataset, tested = rows_to_learn(data, split, test, holdout, seed, data_home, kept)
    n_rows, n_labels = dataset.Y.shape
    remark(f"{dataset.name}: {n_rows} rows, {n_labels} labels to learn; model {recipe.name}", silent)
    _warn_about_labels(dataset, reading.get("unlabelled"), silent)
    with _Stop().on_interrupt() as stop:
        tagger = train_tagger(
            dataset, recipe, params=params, tune=tune, grid=values or None, criterion=criterion, folds=folds,
            budget=budget, thresholds=None if thresholds.lower() == "none" else thresholds,
            aim=DEFAULT_AIM if aim is None else as_aim(aim), guarantee=guarantee, confidence=confidence, n_jobs=jobs,
            random_state=seed, verbose=0 if silent else 1, checkpoint=checkpoint, should_stop=stop.is_wanted,
            fit_begins=stop.fit_begins, reading=_to_remember(dataset, reading),
        )  # fmt: skip
    tagger.facts.update(test_data=None, test_measures=None)
    tagger.save(target)  # before measuring, which may fail
    if tested is not None:
        tagger.measure(tested, partial(remark, quiet=silent))
        tagger.save(target)
    if checkpoint is not None and not stop.wanted:
        clear_checkpoint(checkpoint)
    _print_result(tagger, target, stop.wanted, checkpoint, quiet, as_json)
    if stop.wanted:
        raise typer.Exit(INTERRUPTED)


class _Stop:
    """Turns the first Ctrl-C during a last fit that asks for it into a request to end it; any other one interrupts."""

    def __init__(self) -> None:
        self.fit_asks = self.wanted = False

    def fit_begins(self, asks: bool) -> None:
        """The last fit begins; ``asks`` says whether it can be ended."""
        self.fit_asks = asks

    def is_wanted(self) -> bool:
        """Whether to end the fit."""
        return self.wanted

    @contextmanager
    def on_interrupt(self) -> Iterator[_Stop]:
        def interrupt(number: int, frame: Any) -> None:
            if not self.fit_asks or self.wanted:
                raise KeyboardInterrupt
            self.wanted = True
            # Not through sys.stderr, which the interrupted line may be writing to.
            os.write(2, b"Ctrl-C: this fit ends here, and the tagger is written as it is; once more to give up.\n")

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)


def _has_file(recipe: ModelRecipe) -> bool:
    from ..persistence import check_saveable

    try:
        check_saveable(recipe.estimator)
    except TypeError:
        return False
    return True


def assignments(texts: list[str] | None, flag: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts or ():
        name, _, value = map(str.strip, text.partition("="))
        if not (name and value):
            raise ValueError(f"{flag} {text}: write NAME=VALUE, such as C=0.1")
        if name in values:
            raise ValueError(f"{flag} {text}: {name} has a value already, {values[name]}")
        values[name] = value
    return values


def typed_value(text: str) -> Any:
    """A number, a word such as none, a tuple as Python writes it, or else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # documented errors of literal_eval
        return text


def _warn_about_labels(dataset: Dataset, unlabelled: str | None, quiet: bool) -> None:
    """Remark on labels of texts that look wrong, before a training that may take very long."""
    from ..data.labels import doubts

    if not isinstance(dataset.X, list):
        return
    n_empty = int((dataset.Y.sum(axis=1) == 0).sum())  # NaN is not 0
    if n_empty and unlabelled is None and hasattr(dataset.Y, "nnz"):  # lists; columns of 0 say that a label is off
        which = f"{n_empty} of {dataset.Y.shape[0]} rows have no label, and are learned as such"
        cures = "--unlabelled drop leaves them out, unknown counts them nowhere, negative says that this is right"
        remark(f"{which}; {cures}", quiet)
    for doubt in doubts(dataset.Y, dataset.label_names):
        remark(re.sub(r"\b(labels|sep)=( ?)", r"--\1 ", doubt), quiet)


def _to_remember(dataset: Dataset, reading: dict[str, Any]) -> dict[str, Any]:
    """Reading options that the tagger applies to new files with texts."""
    if not isinstance(dataset.X, list):
        return {"missing": "zero"} if reading.get("missing") == "zero" else {}
    given: dict[str, Any] = {name: reading[name] for name in ("text", "labels", "sep") if name in reading}
    if isinstance(given.get("labels"), list) and len(given["labels"]) == 1:  # the column of label lists
        given["labels"] = given["labels"][0]
    if isinstance(given.get("labels"), int) and len(dataset.label_names) > 1:  # new files may have other columns
        given["labels"] = list(dataset.label_names)
    return given


def _print_result(
    tagger: Tagger, target: Path, stopped: bool, checkpoint: Path | None, quiet: bool, as_json: bool
) -> None:
    """Print measures, certificate and the place of the file."""
    from ..core.wording import counted

    facts = tagger.facts
    measures = facts["test_measures"] or facts["fold_measures"]
    if as_json:
        print_json({"tagger": str(target), "stopped": stopped, **facts})
        return
    if measures is not None:
        where = "held-out folds of the training rows, on which cuts were learned"
        if facts["test_data"]:
            where = counted(facts["test_data"]["rows"], "test row")
        share = (facts["test_data"] or facts["data"]).get("known")
        if share is not None:
            where += f", in their known cells: {share}"
        say(f"Measured on {where}:")
        shown = {name: measures[name] for name in _SHOWN if measures.get(name) is not None}
        console_for().print(measures_table(shown))
    if "duality_gap" in facts and facts["objective"]:
        remark(f"objective {facts['objective']:.6g}, {_gap_text(facts)}", quiet)
    if "trials" in facts:
        _print_trials(facts, quiet)
    if facts["searched"]:
        chosen = ", ".join(f"{name} = {value}" for name, value in facts["searched"].items())
        remark(f"chosen by {facts['criterion']} on {facts['folds']} folds: {chosen}", quiet)
    if facts["guarantee"]:
        remark(facts["guarantee"], quiet)
    for promised, value in facts.get("test_promise", {}).items():
        say(f"Promised: {promised}. On the test rows: {value:.3f}")
    if stopped and checkpoint is not None:
        remark(f"stopped early; the same command goes on from {checkpoint}", quiet)
    elif stopped:
        remark("stopped early: the tagger is what the fit had reached", quiet)
    say(f"{target}: {file_size(target)}")


def _print_trials(facts: dict[str, Any], quiet: bool) -> None:
    """The members of a blend, as a table, and what was tried."""
    from rich.table import Table

    from ..search import Trial

    if quiet:
        return
    table = Table("member", "weight", "parameters", "aim", "log loss", box=None, pad_edge=False)
    for trial in facts["trials"]:
        if trial["weight"]:
            numbers = f"{trial['value']:.3f}", f"{trial['log_loss']:.4g}"
            table.add_row(trial["model"], f"{trial['weight']:.2f}", Trial(**trial).text, *numbers)
    console_for(stderr=True).print(table)
    seconds = sum(trial["seconds"] for trial in facts["trials"])
    remark(f'tried {len(facts["trials"])} choices in {seconds:.0f} s; --budget "{facts["budget"]}" repeats it')


def _gap_text(facts: dict[str, Any]) -> str:
    """How far the objective may be above the optimum, by the certificate."""
    gap, dual = facts["duality_gap"], facts["dual_objective"]
    above = f"{100.0 * max(gap / dual, _ROUNDING):.2g} %" if dual > 0.0 else f"{max(gap, 0.0):.3g}"
    if "lower_bound" in facts:
        return f"at most {above} above the best of its last convex step; nothing is below {facts['lower_bound']:.6g}"
    return f"at most {above} above the optimum"
