"""``comargin predict``: labels of new rows, however many they are."""

import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ._console import check_target, remark, row_progress
from ._options import (
    WRITING_FLAGS,
    Aim,
    DataHome,
    ExpectHash,
    Quiet,
    TaggerFile,
    TestSplit,
    ToDelimiter,
    as_aim,
    in_flags,
    streams_new_rows,
)
from ._rows import STANDARD, counted_file, load_tagger, rows_for


@streams_new_rows
def predict(
    tagger: TaggerFile,
    new: Annotated[str, Argument(metavar="NEW", help="Rows: a file, - for the standard input, or a known set.")],
    *,
    output: Annotated[
        str, Option("--output", "-o", help="File to write: .csv, .tsv, .jsonl or .parquet; - is the standard output.")
    ] = STANDARD,
    top_k: Annotated[
        int | None, Option(min=1, metavar="K", help="Write also the K labels of the highest scores, in order.")
    ] = None,
    scores: Annotated[bool, Option("--scores", help="Write also the scores of all labels.")] = False,
    proba: Annotated[bool, Option("--proba", help="Write also the probabilities of all labels.")] = False,
    aim: Aim = None,
    explain: Annotated[
        int | None, Option(min=1, metavar="N", help="Write also the N strongest reasons of every predicted label.")
    ] = None,
    to: Annotated[
        str | None, Option(help="Format to write: csv, jsonl or parquet (default: by the suffix; csv).")
    ] = None,
    to_sep: Annotated[
        str | None, Option(help="Separator inside a label list that is written (default: as in training; ;).")
    ] = None,
    to_delimiter: ToDelimiter = None,
    chunk_rows: Annotated[
        int | None,
        Option(min=1, help="Rows that are predicted together; 1 answers every line at once (default: 4096)."),
    ] = None,
    split: TestSplit = None,
    data_home: DataHome = None,
    expect_hash: ExpectHash = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Predict the labels of new rows.

    Rows are read, predicted and written some at a time: memory does not grow with the file. Columns are found by their
    names, others are left out. The output file appears whole at the end, or not at all.

    \b
    comargin predict tagger.cmg new.csv -o labels.csv
    comargin predict tagger.cmg new.jsonl --id number --top-k 5 -o top.parquet
    comargin predict tagger.cmg new.csv --aim macro_f1 --proba -o labels.parquet
    comargin predict tagger.cmg new.csv --explain 3 -o why.jsonl
    zcat posts.csv.gz | comargin predict tagger.cmg - --to jsonl | head
    """
    from ..core.explanation import require_explainable
    from ..core.wording import counted as plural
    from ..data import PredictionWriter

    to_stdout = output == STANDARD
    if not to_stdout:
        check_target("--output", Path(output), "labels.csv")
    model = load_tagger(tagger, expect_hash)
    if proba and scores:
        raise ValueError("--proba and --scores exclude each other")
    if (proba or aim is not None) and not model.has_probabilities:
        raise ValueError("--proba and --aim need a tagger that was trained without --thresholds")
    if aim is not None and model.promise is not None:
        remark(f"--aim: these label sets do not keep the promise of the tagger, {model.promise.text}", quiet)
    if explain is not None:
        require_explainable(model.model)
    with_scores = scores or proba or top_k is not None
    target = None if aim is None else as_aim(aim)
    with in_flags(WRITING_FLAGS):
        writer = PredictionWriter(
            output, model.label_names, format=to, top_k=top_k, scores=scores or proba,
            probabilities=proba, explain=explain is not None,
            sep=to_sep or model.reading.get("sep", ";"), delimiter=to_delimiter, id_name=reading.get("id", "row"),
        )  # fmt: skip
    # Rows printed on a terminal are their own progress.
    silent = quiet or (to_stdout and sys.stdout.isatty())
    counted = counted_file(new, reading.get("format")) if sys.stderr.isatty() and not silent else None
    size = None if counted is None else Path(new).stat().st_size
    n_labels = 0

    def decided(X: Any) -> tuple[Any, Any]:
        if with_scores:
            return model.labels_and_scores(X, target, probabilities=proba)
        return model.predict(X, target), None

    with counted or nullcontext():
        chunks = rows_for(model, new, reading, split=split, data_home=data_home, chunk_rows=chunk_rows, counted=counted)
        first = next(chunks)  # an unreadable file fails before a heading is written
        with row_progress(silent, size) as show, writer:
            for chunk in chain([first], chunks):
                Y, values = decided(chunk.X)
                reasons = None if explain is None else model.explain(chunk.X, top=explain, labels=Y)
                writer.write(chunk, Y, values, reasons)
                n_labels += Y.nnz
                show(writer.n_rows, 0 if counted is None else counted.tell())
    if not to_stdout:
        remark(f"{output}: {plural(writer.n_rows, 'row')}, {n_labels / writer.n_rows:.2f} labels per row", quiet)
