"""Options that several commands share, and messages of the library in their words: ``labels=`` is ``--labels``."""

import csv
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

Command = Callable[..., None]


def as_delimiter(value: str | None) -> str | None:
    r"""Take ``\t`` as typed in a shell for a tab."""
    return "\t" if value == "\\t" else value


Aim = Annotated[
    str | None,
    Option(
        help="What label sets are best for: micro_f1 (default), macro_f1, example_f1, hamming_loss, subset_accuracy, "
        "ranking, precision_at_3 (any number), or costs such as 1:5 of a false and of a missed tag."
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print the results as JSON on the standard output, nothing else.")]
Criterion = Annotated[
    str | None, Option(help="What parameters are chosen by (default: average_precision, or micro_f1 without cuts).")
]
DataHome = Annotated[
    Path | None, Option("--data-home", help="Folder of data sets (default: $COMARGIN_DATA, else ~/.cache/comargin).")
]
ExpectHash = Annotated[
    str | None, Option("--expect-hash", metavar="SHA256", help="Refuse another file than that of this hash.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress and no remarks, results only.")]
Source = Annotated[str, Argument(metavar="DATA", help="A data file, or the name of a known set.")]
Split = Annotated[str, Option(help="all, train or test (known sets).")]
TaggerFile = Annotated[Path, Argument(metavar="TAGGER", help="A tagger that comargin train has written.")]
TestSplit = Annotated[
    str | None,
    Option("--split", help="Rows of a known set: all, train or test (default: test where it is published, else all)."),
]
Thresholds = Annotated[
    str, Option(help="When a label is on: aim, or a rule: per-label, global, proportional, top-k, rank-svm; or none.")
]
ToDelimiter = Annotated[
    str | None, Option(callback=as_delimiter, help="Between the cells of a CSV file that is written; \\t is a tab.")
]

# Help of the arguments of `comargin.data.read`. None, the default of all, leaves the choice to `read`.
_OF_FILES = {
    "format": "Format of the file: mulan, meka, libsvm, xmc, csv, text-csv, jsonl or parquet; found by itself if not "
    "given.",
    "labels": "Which columns are labels: names separated by commas, a number of leading (> 0) or trailing (< 0) "
    "columns, an XML list; for texts and JSON Lines one name is the column of label lists.",
    "unlabelled": "Missing labels, and empty lists of labels: drop leaves such rows out, negative takes them as off, "
    "unknown counts them nowhere.",
    "drop": "Columns or fields to leave out: names separated by commas.",
    "missing": "Missing values: error, nan, zero or mean (default: error).",
    "nominal": "Nominal ARFF attributes: auto or onehot (default: auto).",
    "text": "Text column of a table, or field of JSON Lines (default: text).",
    "sep": "Separator inside a label list (default: ;).",
    "delimiter": "Between the cells of a CSV file; \\t is a tab (default: as the header has).",
    "encoding": "Encoding of text formats (default: utf-8).",
    "index_base": "What the features of a libsvm file count from, 0 or 1 (default: 1).",
    "label_base": "What the labels of a libsvm file count from, 0 or 1 (default: 0).",
    "n_features": "Number of features of a libsvm file (default: as its indices say).",
    "n_labels": "Number of labels of a libsvm file (default: as its indices say).",
}
_WHOLE_NUMBERS = {"index_base", "label_base", "n_features", "n_labels"}
# Help of the arguments of `comargin.data.stream` that the tagger does not fix.
_OF_NEW_ROWS = {
    "format": "Format of the file: as in comargin data info; found by itself if not given.",
    "id": "Column that names the rows (tables and JSON Lines); it is passed through.",
    "missing": "Missing values: error, zero, or nan for a tagger that has learned from some (default: as in training).",
    "text": "Text column (default: as in training).",
    **{name: _OF_FILES[name] for name in ("nominal", "delimiter", "encoding", "index_base")},
}
_OF_LABELLED_ROWS = {
    **{name: text for name, text in _OF_NEW_ROWS.items() if name != "id"},
    "labels": "Which columns are labels, as in comargin data info (default: as in training, or as the file says).",
    "sep": "Separator inside a label list (default: as in training).",
    "label_base": _OF_FILES["label_base"],
    "unlabelled": _OF_FILES["unlabelled"],
}


def as_aim(text: str) -> str | list[float]:
    """The name of an aim, or the costs that ``1:5`` means."""
    if ":" not in text:
        return text
    try:
        return [float(cost) for cost in text.split(":")]
    except ValueError:
        raise ValueError(f"--aim {text}: write costs as 1:5, of a false tag and of a missed one") from None


WRITING_FLAGS = {"format": "--to", "sep": "--to-sep", "delimiter": "--to-delimiter"}


def reading_flag(name: str) -> str:
    """Flag of an argument of `comargin.data.read` or `stream`."""
    return f"--{name.replace('_', '-')}"


def _with_options(options: Mapping[str, str]) -> Callable[[Command], Command]:
    """Make a decorator that adds options to a command, which receives those given as the dict ``reading``."""

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        parameters = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "reading"
        ]
        for name, text in options.items():
            option = Option(reading_flag(name), help=text, rich_help_panel="How the file is read")
            value: Any = int | None if name in _WHOLE_NUMBERS else str | None
            parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            parameters.append(parameter.replace(annotation=Annotated[value, option]))

        @functools.wraps(command)
        def with_options(**arguments: Any) -> None:
            given = {name: value for name in options if (value := arguments.pop(name)) is not None}
            if "labels" in given and options is _OF_FILES:
                given["labels"] = as_labels(given["labels"])
            if "drop" in given:
                given["drop"] = _names(given["drop"])
            if "delimiter" in given:
                given["delimiter"] = as_delimiter(given["delimiter"])
            command(**arguments, reading=given)

        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_options

    return decorate


reads_a_file = _with_options(_OF_FILES)
streams_new_rows = _with_options(_OF_NEW_ROWS)
streams_labelled_rows = _with_options(_OF_LABELLED_ROWS)  # ``labels`` stays a string: its type depends on the tagger


def as_labels(value: str) -> str | int | list[str]:
    """Take ``--labels`` for an XML file, a number of columns, or names; one name may be a column of label lists."""
    if value.lower().endswith((".xml", ".xml.gz")):
        return value
    try:
        return int(value)
    except ValueError:
        return _names(value)


def _names(value: str) -> list[str]:
    """Names between commas; one that has a comma stands in double quotes."""
    return next(csv.reader([value]), []) or [""]


@contextmanager
def in_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Turn errors about arguments of the library into a ValueError that names the flags of the command line.

    ``name=value`` becomes ``--name value``; ``name=``, and ``name`` at the beginning, become ``--name``.
    """
    names = "|".join(map(re.escape, flags))

    def flag(match: re.Match[str]) -> str:
        name, only, follows = match.group(1, 2, 3)
        if only is not None:
            return f"{flags[name]} {only}"
        return flags[name] + (" " if follows and follows not in " ,.;:)" else "")

    try:
        yield
    except (ValueError, OSError) as error:
        message = re.sub(rf"^({names})(?=: | must )", lambda match: flags[match.group(1)], str(error))
        message = re.sub(rf"\b({names})=(?:\[('[^']*')\]|(?=(.?)))", flag, message, flags=re.DOTALL)
        if message == str(error):
            raise
        raise ValueError(message) from error
