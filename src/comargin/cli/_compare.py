"""``comargin compare``: models on data sets, as papers compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ._console import INTERRUPTED, check_target, console_for, print_json, remark, step_progress
from ._options import AsJson, Criterion, DataHome, Quiet, Thresholds, reads_a_file
from ._rows import obtain
from ._train import ListModels

if TYPE_CHECKING:
    from ..comparison import CellDone, Comparison
    from ..data import Dataset

_FAVOURITE = "micro_f1"  # of the diagram, if it is among the measures


@reads_a_file
def compare(
    data: Annotated[list[str], Argument(metavar="DATA", help="Data files, or names of known sets.")],
    *,
    models: Annotated[
        str,
        Option(
            "--models",
            "-m",
            help="Models, separated by commas: see --list-models (default: m3l, ovr, ovr-svm, forest, knn).",
            show_default=False,
        ),
    ] = "m3l,ovr,ovr-svm,forest,knn",
    folds: Annotated[int | None, Option(min=2, help="Folds (default: 5).")] = None,
    repeats: Annotated[int | None, Option(min=1, help="Random splits instead of folds.")] = None,
    test_size: Annotated[float | None, Option(help="Share of the rows to test with --repeats (default: 0.5).")] = None,
    measures: Annotated[
        str | None,
        Option(help="What tables show, separated by commas (default: six usual measures; all are recorded)."),
    ] = None,
    tune: Annotated[bool, Option(help="Search the parameters of every model in every training part.")] = True,
    criterion: Criterion = None,
    inner_folds: Annotated[int, Option(min=2, help="Folds of each training part, for parameters and cuts.")] = 3,
    thresholds: Thresholds = "aim",
    results: Annotated[
        Path, Option(help="File with a row per finished cell, .csv or .parquet; the same command goes on from it.")
    ] = Path("comargin-compare.csv"),
    retry_failed: Annotated[bool, Option("--retry-failed", help="Run cells again that failed before.")] = False,
    jobs: Annotated[int, Option("--jobs", "-j", help="Processes, -1 for all cores.")] = -1,
    seed: Annotated[int, Option(min=0, help="Seed of splits and models.")] = 0,
    cd: Annotated[
        Path | None, Option("--cd", help="Write the critical-difference diagram to this .svg or .html file.")
    ] = None,
    rank_by: Annotated[
        str | None, Option(help="Measure of the diagram (default: micro_f1, else the first shown).")
    ] = None,
    latex: Annotated[bool, Option("--latex", help="Print tables in LaTeX.")] = False,
    markdown: Annotated[bool, Option("--markdown", help="Print tables in Markdown.")] = False,
    as_json: AsJson = False,
    list_models: ListModels = False,
    data_home: DataHome = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Compare models on the same splits of data sets; parameters and cuts are chosen within each training part.

    Prints means and deviations, average ranks and tests (Friedman, Nemenyi, Wilcoxon). Every finished cell (model,
    data set, split) is a row of --results at once: stop it, run the same command again, and it goes on. A cell that
    fails is reported, and the others go on; the exit code is 1 only if all fail.

    \b
    comargin compare emotions --models m3l,cgm,ovr,forest,chain --folds 5
    comargin compare emotions yeast scene --repeats 10 --test-size 0.5 --cd cd.svg
    comargin compare posts.csv --text body --labels tags --markdown > table.md
    """
    from ..comparison import DEFAULT_MEASURES
    from ..comparison import compare as run_cells
    from ..metrics import scorers
    from ..models import checked_models

    if latex + markdown + as_json > 1:
        raise ValueError("--latex, --markdown and --json exclude each other")
    if folds is not None and repeats is not None:
        raise ValueError("--folds and --repeats exclude each other")
    if test_size is not None and repeats is None:
        raise ValueError("--test-size is for --repeats; with folds, their number says how many rows are tested")
    shown = _listed(measures, "--measures") or list(DEFAULT_MEASURES)
    default_rank = _FAVOURITE if _FAVOURITE in shown else shown[0]
    ranked = default_rank if rank_by is None else rank_by
    for flag, name in (*(("--measures", name) for name in shown), ("--rank-by", ranked)):
        try:
            scorers[name]
        except KeyError as error:
            raise ValueError(f"{flag}: {error.args[0]}") from None
    if cd is not None:
        if cd.suffix.lower() not in (".svg", ".html"):
            raise ValueError(f"--cd must end in .svg or .html, got {cd.name!r}")
        check_target("--cd", cd, "cd.svg")
    if results.suffix:  # `run_cells` refuses a name without a suffix, and lists those allowed
        check_target("--results", results, "results.csv")
    names = _listed(models, "--models")
    checked_models(names)
    datasets = _datasets(data, data_home, reading)  # may take long: after all checks of options
    kept = 0

    def finished(done: CellDone) -> None:
        nonlocal kept
        kept += done.kept
        cell = done.cell
        if cell["error"]:
            outcome = f"failed: {cell['error']}"
        elif done.kept:
            outcome = "kept"
        else:
            outcome = f"{cell['tune_seconds'] + cell['fit_seconds'] + cell['predict_seconds']:.1f} s"
        text = f"{cell['dataset']}, split {cell['split']}, {cell['model']}: {outcome}"
        show(text, done.done, done.total, line=not done.kept or bool(cell["error"]))

    try:
        with step_progress(quiet) as show:
            found = run_cells(
                datasets, names, folds=folds, repeats=repeats, test_size=0.5 if test_size is None else test_size,
                measures=shown, tune=tune, criterion=criterion, inner_folds=inner_folds,
                thresholds=None if thresholds.lower() == "none" else thresholds, n_jobs=jobs, results=results,
                retry_failed=retry_failed, random_state=seed, callback=finished,
            )  # fmt: skip
    except KeyboardInterrupt:
        remark(f"Stopped. Finished cells are kept in {results}; the same command goes on.")
        raise typer.Exit(INTERRUPTED) from None
    if len(found.failed) == len(found.cells):
        raise ValueError(f"all cells failed, the first with {found.failed[0]['error']}; see {results}")
    if as_json:
        print_json(_document(found, results))
    elif latex or markdown:
        typer.echo(found.to_latex() if latex else found.to_markdown(), nl=False)
    else:
        _print_text(found, ranked)
    if cd is not None:
        _write_diagram(found, ranked, cd)
        remark(f"{cd}: critical-difference diagram of {ranked}", quiet)
    if found.failed:
        remark(f"{len(found.failed)} of {len(found.cells)} cells failed; --retry-failed runs them again", quiet)
    remark(f"{results}: {len(found.cells)} cells{f', {kept} of them finished before' if kept else ''}", quiet)


def _listed(text: str | None, flag: str) -> list[str]:
    """Names between commas."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{flag} must name at least one, separated by commas")
    return names


def _datasets(sources: Sequence[str], data_home: Path | None, reading: dict[str, Any]) -> list[Dataset]:
    """All data sets, by distinct names; options about reading are for the files among them."""
    if len(set(sources)) < len(sources):
        twice = next(source for k, source in enumerate(sources) if source in sources[:k])
        raise ValueError(f"{twice} is given twice")
    files = [source for source in sources if Path(source).is_file()]
    datasets = [obtain(source, "all", data_home, reading if source in files or not files else {}) for source in sources]
    names = [dataset.name for dataset in datasets]
    return [  # files of the same name in different folders go by their paths
        replace(dataset, name=source) if names.count(dataset.name) > 1 else dataset
        for dataset, source in zip(datasets, sources, strict=True)
    ]


def _print_text(found: Comparison, ranked: str) -> None:
    """Tables as wide as the screen allows, tests and notes, the diagram."""
    console = console_for()
    sentences = found.to_text().rpartition("\n\n")[2]
    for measures in _fitting(found, console.width):
        tables = found.to_text(measures).rpartition("\n\n")[0]
        console.print(f"{tables}\n", highlight=False, markup=False, soft_wrap=True)
    console.print(sentences, highlight=False, markup=False)
    if found.blocks(ranked).testable:
        console.print(found.critical_difference_text(ranked), highlight=False, markup=False, soft_wrap=True)


def _fitting(found: Comparison, width: int) -> list[list[str]]:
    """Measures whose columns stand side by side on a screen; with several data sets each has a table of its own."""
    if len(found.datasets) > 1:
        return [list(found.measures)]
    parts: list[list[str]] = [[]]
    for measure in found.measures:
        table = found.to_text([*parts[-1], measure]).rpartition("\n\n")[0].split("\n\n", 1)[1]
        if parts[-1] and max(map(len, table.splitlines())) > width:
            parts.append([])
        parts[-1].append(measure)
    return parts


def _write_diagram(found: Comparison, measure: str, path: Path) -> None:
    from ..comparison.diagram import diagram_svg
    from ..core.files import AtomicFiles
    from ..report import save_figure

    if not found.blocks(measure).testable:
        raise ValueError(f"--cd: the diagram needs two models on two {found.blocks(measure).over}")
    if path.suffix.lower() == ".html":
        save_figure(found.critical_difference_figure(measure), path)
        return
    with AtomicFiles() as files:
        files.open(path).write(diagram_svg(found.critical_difference(measure), measure, found.over(measure)))


def _document(found: Comparison, results: Path) -> dict[str, Any]:
    """Everything that the text says, as plain values."""
    tables: dict[str, Any] = {}
    for measure in found.measures:
        table, blocks = found.table(measure), found.blocks(measure)
        tests: dict[str, Any] = {}
        if blocks.testable:
            difference = found.critical_difference(measure)
            tests["nemenyi"] = {"critical_difference": difference.difference, "alpha": difference.alpha}
            tests["wilcoxon"] = [vars(pair) for pair in found.wilcoxon(measure)]
            if len(blocks.models) > 2:
                tests["friedman"] = vars(found.friedman(measure))
        tables[measure] = {
            "higher_is_better": table.higher_is_better,
            "datasets": {
                dataset: {
                    model: {"mean": table.mean[i, j], "deviation": table.deviation[i, j], "splits": table.counts[i, j]}
                    for j, model in enumerate(found.models)
                }
                for i, dataset in enumerate(found.datasets)
            },
            "average_ranks": found.ranks(measure),
            "ranked_over": {"what": blocks.over, "number": len(blocks.names), "left_out": list(blocks.left_out)},
            "tests": tests,
        }
    failed = [{name: cell[name] for name in ("dataset", "split", "model", "error")} for cell in found.failed]
    return {
        "datasets": found.datasets,
        "models": found.models,
        "protocol": found.cells[0]["protocol"],
        "cells": len(found.cells),
        "measures": tables,
        "failed": failed,
        "notes": found.notes(),
        "results": str(results),
    }
