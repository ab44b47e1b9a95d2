"""How to read a file: the options of every command that reads one, declared once."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import typer

# Argument of `comargin.data.read`: (type, help). None, the default of all, leaves it to `read`.
_OPTIONS: dict[str, tuple[Any, str]] = {
    "format": (
        str,
        "Format of the file: mulan, meka, libsvm, xmc, csv, text-csv, jsonl or parquet; found by itself if not given.",
    ),
    "labels": (
        str,
        "Which columns are labels: names separated by commas, a number of leading (> 0) or trailing (< 0) "
        "columns, an XML list, or the column of label lists with --text and in JSON Lines.",
    ),
    "drop": (str, "Columns or fields to leave out: names separated by commas."),
    "missing": (str, "Missing values: error, nan, zero or mean (default: error)."),
    "nominal": (str, "Nominal ARFF attributes: auto or onehot (default: auto)."),
    "text": (str, "Text column of a table with a column of label lists, or field of JSON Lines (default: text)."),
    "sep": (str, "Separator inside a label list (default: ;)."),
    "delimiter": (str, "Between the cells of a CSV file; \\t is a tab (default: a comma, a tab for .tsv)."),
    "encoding": (str, "Encoding of text formats (default: utf-8)."),
    "index_base": (int, "What the features of a libsvm file count from, 0 or 1 (default: 1)."),
    "label_base": (int, "What the labels of a libsvm file count from, 0 or 1 (default: 0)."),
    "n_features": (int, "Number of features of a libsvm file (default: as its indices say)."),
    "n_labels": (int, "Number of labels of a libsvm file (default: as its indices say)."),
}
# Argument of `comargin.data.stream`, where the tagger says the rest: (type, help).
_OF_NEW_ROWS: dict[str, tuple[Any, str]] = {
    "format": (str, "Format of the file: as in comargin data info; found by itself if not given."),
    "id": (str, "Column that names the rows (tables and JSON Lines); it is passed through."),
    "missing": (str, "Missing values: error or zero (default: error)."),
    "text": (str, "Text column (default: as in training)."),
    **{name: _OPTIONS[name] for name in ("nominal", "delimiter", "encoding", "index_base")},
}
_OF_LABELLED_ROWS: dict[str, tuple[Any, str]] = {
    **{name: option for name, option in _OF_NEW_ROWS.items() if name != "id"},
    "labels": (
        str,
        "Which columns are labels, as in comargin data info (default: as in training, or as the file says).",
    ),
    "sep": (str, "Separator inside a label list (default: as in training)."),
    "label_base": _OPTIONS["label_base"],
}
_PANEL = "How the file is read"
READING_FLAGS = {name: f"--{name.replace('_', '-')}" for name in (*_OPTIONS, "id", "split", "data_home", "chunk_rows")}


def reads_a_file(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `read`; it gets those that were used as the dict ``reading``."""
    return _with_options(command, _OPTIONS, _for_read)


def streams_new_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `stream` that a tagger leaves open, as `reads_a_file` does."""
    return _with_options(command, _OF_NEW_ROWS, _for_stream)


def streams_labelled_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the same options, and those about labels; ``labels`` stays the string that was given."""
    return _with_options(command, _OF_LABELLED_ROWS, _for_stream)


def _with_options(
    command: Callable[..., None], options: Mapping[str, tuple[Any, str]], converted: Callable[[dict[str, Any]], Any]
) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name != "reading"
    ]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                kind | None,
                typer.Option(READING_FLAGS[name], help=help, show_default=False, rich_help_panel=_PANEL),
            ],
        )
        for name, (kind, help) in options.items()
    ]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {name: value for name in options if (value := arguments.pop(name)) is not None}
        command(**arguments, reading=converted(given))

    with_options.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    return with_options


def _for_read(given: dict[str, Any]) -> dict[str, Any]:
    """Turn options into the types `read` takes."""
    if "labels" in given:
        given["labels"] = as_labels(given["labels"], is_column="text" in given)
    if "drop" in given:
        given["drop"] = _names(given["drop"])
    return _for_stream(given)


def _for_stream(given: dict[str, Any]) -> dict[str, Any]:
    if "delimiter" in given:
        given["delimiter"] = as_delimiter(given["delimiter"])
    return given


def as_delimiter(value: str) -> str:
    r"""Take ``\t`` as typed in a shell for a tab."""
    return "\t" if value == "\\t" else value


def as_labels(value: str, is_column: bool) -> str | int | list[str]:
    """Take ``--labels`` for the one column of label lists, an XML file, a number of columns, or names."""
    if is_column or value.lower().endswith(".xml"):
        return value
    try:
        return int(value)
    except ValueError:
        return _names(value)


def _names(value: str) -> list[str]:
    """Names between commas; one that has a comma stands in double quotes."""
    return next(csv.reader([value]), []) or [""]
