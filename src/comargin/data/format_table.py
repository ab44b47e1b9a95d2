"""The table of file formats that `read`, `write`, `stream` and `detect_format` use.

To add a format, write its `Rows` and its writer in a file of its own and add one entry to `TABLE`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from ..core.files import plain_suffix
from ._arff import ArffRows, labels_xml_beside, write_arff
from ._arff_header import arff_kind, is_arff_line
from ._json_lines import JsonRows, is_json_line, write_json_lines
from ._source import TextSource
from .chunks import Rows, Wanted
from .parquet import MAGIC, parquet_rows, write_parquet
from .sparse_text import SparseRows, is_libsvm_line, is_xmc_header, sparse_kind, write_sparse_text
from .text_table import csv_rows, table_kind, write_table, write_text_csv


@dataclass(frozen=True)
class Format:
    """One file format.

    ``rows(source, wanted, **options)`` returns the `Rows` of an open file; the source is a `TextSource`, or a path
    where ``needs_path``; its options are keyword-only, and ``wanted`` has the others. `read` keeps all parts of the
    rows and `stream` passes them on. ``write(dataset, path, files, **options)`` writes a checked data set through
    `AtomicFiles`. The options of `read` and of writing are listed.
    """

    rows: Callable[..., Rows]
    write: Callable[..., None]
    read_options: frozenset[str] = frozenset()
    write_options: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()  # of files in this format; they decide on reading where suffix_decides
    suffix_decides: bool = True
    is_first_line: Callable[[str], bool] | None = None  # may a file start with this line, after blanks and comments?
    magic: bytes = b""  # first bytes of every file; empty for text formats
    kind_of: Callable[[Path, str | None], str] | None = None  # of (path, delimiter): which of two formats it is
    texts: bool = False  # X may be texts, with lists of labels
    has_names: bool = True  # columns have names
    takes_label_file: bool = False  # labels= may be a file
    label_file: Callable[[Path], Path] | None = None  # second file that is written, with the names of the labels
    needs_path: bool = False  # cannot be read as a stream
    holds_unknown: bool = False  # Y may have NaN where X is numbers

    @property
    def row_options(self) -> frozenset[str]:
        """Keyword arguments of ``rows`` that the entry leaves open."""
        bound = getattr(self.rows, "keywords", {})
        parameters = signature(self.rows).parameters.values()
        return frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name not in bound)

    @property
    def stream_options(self) -> frozenset[str]:
        """Arguments of `stream` that mean something; lists of labels that need no separator are read with any."""
        return self.row_options | ({"id", "sep"} if self.texts else set())


_ARFF = Format(
    partial(ArffRows, meka=True),
    partial(write_arff, meka=True),
    read_options=frozenset({"labels", "nominal", "missing", "unlabelled", "drop", "encoding"}),
    takes_label_file=True,
    holds_unknown=True,
)

_CSV = Format(
    csv_rows,
    write_table,
    read_options=frozenset({"labels", "missing", "unlabelled", "drop", "text", "sep", "delimiter", "encoding"}),
    write_options=frozenset({"sep", "delimiter"}),
    texts=True,
)

TABLE: dict[str, Format] = {
    "mulan": replace(
        _ARFF,
        rows=partial(ArffRows, meka=False),
        write=partial(write_arff, meka=False),
        suffixes=(".arff",),
        is_first_line=is_arff_line,
        kind_of=arff_kind,
        label_file=labels_xml_beside,
    ),
    "meka": _ARFF,
    "libsvm": Format(
        partial(SparseRows, xmc=False),
        partial(write_sparse_text, xmc=False),
        read_options=frozenset({"n_features", "n_labels", "index_base", "label_base", "encoding"}),
        suffixes=(".svm", ".libsvm"),
        is_first_line=is_libsvm_line,
        kind_of=sparse_kind,
        has_names=False,
    ),
    "xmc": Format(
        partial(SparseRows, xmc=True, index_base=0, label_base=0),
        partial(write_sparse_text, xmc=True),
        read_options=frozenset({"encoding"}),
        suffixes=(".txt",),
        suffix_decides=False,
        is_first_line=is_xmc_header,
        has_names=False,
    ),
    "csv": replace(_CSV, suffixes=(".csv", ".tsv"), kind_of=table_kind, holds_unknown=True),
    "text-csv": replace(_CSV, rows=partial(csv_rows, only_texts=True), write=write_text_csv),
    "jsonl": Format(
        JsonRows,
        write_json_lines,
        read_options=frozenset({"labels", "missing", "unlabelled", "drop", "text", "sep", "encoding"}),
        suffixes=(".jsonl", ".ndjson"),
        is_first_line=is_json_line,
        texts=True,
    ),
    "parquet": Format(
        parquet_rows,
        write_parquet,
        read_options=frozenset({"labels", "missing", "unlabelled", "drop", "text"}),
        suffixes=(".parquet", ".pq"),
        magic=MAGIC,
        texts=True,
        needs_path=True,
        holds_unknown=True,
    ),
}
FORMATS = tuple(TABLE)


def checked_format(format: str) -> Format:
    """Entry of a format that the user names."""
    if format not in TABLE:
        raise ValueError(f"format={format!r} is unknown, allowed are {', '.join(FORMATS)}")
    return TABLE[format]


def check_meaning(function: Callable[..., Any], format: str, takes: frozenset[str], options: dict[str, Any]) -> None:
    """ValueError when an option that the format does not take differs from its default in the function."""
    parameters = signature(function).parameters
    for key, value in options.items():
        if key not in takes and value != parameters[key].default:
            known = ", ".join(sorted(takes)) or "none of the kind"
            raise ValueError(f"{key}= means nothing to format {format!r}; it takes {known}")


def rows_of(format: str, path: Path, source: TextSource | Path, wanted: Wanted, options: dict[str, Any]) -> Rows:
    """Rows of an open file as `read` and `stream` want them; ``options`` may hold more than the format takes."""
    entry, labels = TABLE[format], wanted.labels
    if options["text"] is not None:
        wanted = replace(wanted, is_text=True)
    elif wanted.feature_names or wanted.n_features is not None:
        wanted = replace(wanted, is_text=False)
    if not entry.has_names and not (labels is None or labels is True or isinstance(labels, tuple)):
        raise ValueError(f"labels={labels!r}: for format {format!r} it must be True or a sequence of names")
    if isinstance(labels, Path) and not entry.takes_label_file:
        raise ValueError(f"labels={labels!r}: a file of labels means something to ARFF only")
    chosen = {key: options[key] for key in entry.row_options}
    return entry.rows(source, wanted, **chosen)


def format_of_suffix(path: Path) -> str | None:
    """Format of a file to write, by its suffix; None: no format has it."""
    suffix = plain_suffix(path)
    return next((name for name, entry in TABLE.items() if suffix in entry.suffixes), None)


def may_hold_texts(path: Path, format: str | None) -> bool:
    """Tell whether a file may hold texts, by its format or else by a suffix that decides."""
    entry = TABLE.get(format or format_of_suffix(path) or "")
    return entry is None or entry.texts or (format is None and not entry.suffix_decides)
