"""The table of file formats that `read`, `write`, `stream` and `detect_format` use.

To add a format, write its three functions in a file of its own and add one entry to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from ..core.files import plain_suffix
from ._arff import labels_xml_beside, read_arff, stream_arff, write_arff
from ._arff_header import arff_kind, is_arff_line
from ._dataset import Dataset
from ._json_lines import is_json_line, read_json_lines, stream_json_lines, write_json_lines
from ._table import read_csv, write_csv
from .chunks import Chunk
from .parquet import MAGIC, read_parquet, stream_parquet, write_parquet
from .sparse_text import (
    is_libsvm_line,
    is_xmc_header,
    read_sparse_text,
    sparse_kind,
    stream_sparse_text,
    write_sparse_text,
)
from .text_table import read_text_csv, stream_table, table_kind, write_text_csv


@dataclass(frozen=True)
class Format:
    """One file format.

    ``read(path, **options)`` returns a `Dataset`. ``write(dataset, path, files, **options)`` writes a checked data
    set through `AtomicFiles`. ``stream(source, wanted, is_text, **options)`` yields chunks of any size; the source is
    a `TextSource`, or a path where ``needs_path``. The options of each are the arguments of the public function of
    the same name that mean something to the format.
    """

    read: Callable[..., Dataset]
    write: Callable[..., None]
    stream: Callable[..., Iterator[Chunk]]
    read_options: frozenset[str]
    write_options: frozenset[str] = frozenset()
    stream_options: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()  # of files in this format; they decide on reading where suffix_decides
    suffix_decides: bool = True
    is_first_line: Callable[[str], bool] | None = None  # may a file start with this line, after blanks and comments?
    magic: bytes = b""  # first bytes of every file; empty for text formats
    kind_of: Callable[[Path, str | None], str] | None = None  # (path, delimiter): which of its relatives a file is in
    numbers: bool = True  # X may be numbers
    texts: bool = False  # X may be texts
    text_twin: str = ""  # format of the same suffixes that takes texts in place of this one
    lists_labels: bool = False  # labels are lists in one column or field, beside numbers too
    has_names: bool = True  # columns have names
    takes_label_file: bool = False  # labels= may be a file
    label_file: Callable[[Path], Path] | None = None  # second file that is written, with the names of the labels
    needs_path: bool = False  # cannot be read as a stream


_ARFF = Format(
    partial(read_arff, meka=True),
    partial(write_arff, meka=True),
    stream_arff,
    read_options=frozenset({"labels", "nominal", "missing", "drop", "encoding"}),
    stream_options=frozenset({"nominal"}),
    takes_label_file=True,
)

TABLE: dict[str, Format] = {
    "mulan": replace(
        _ARFF,
        read=partial(read_arff, meka=False),
        write=partial(write_arff, meka=False),
        suffixes=(".arff",),
        is_first_line=is_arff_line,
        kind_of=arff_kind,
        label_file=labels_xml_beside,
    ),
    "meka": _ARFF,
    "libsvm": Format(
        partial(read_sparse_text, xmc=False),
        partial(write_sparse_text, xmc=False),
        partial(stream_sparse_text, xmc=False),
        read_options=frozenset({"n_features", "n_labels", "index_base", "label_base", "encoding"}),
        stream_options=frozenset({"index_base", "label_base"}),
        suffixes=(".svm", ".libsvm"),
        is_first_line=is_libsvm_line,
        kind_of=sparse_kind,
        has_names=False,
    ),
    "xmc": Format(
        partial(read_sparse_text, xmc=True),
        partial(write_sparse_text, xmc=True),
        partial(stream_sparse_text, xmc=True),
        read_options=frozenset({"encoding"}),
        suffixes=(".txt",),
        suffix_decides=False,
        is_first_line=is_xmc_header,
        has_names=False,
    ),
    "csv": Format(
        read_csv,
        write_csv,
        stream_table,
        read_options=frozenset({"labels", "missing", "drop", "delimiter", "encoding"}),
        write_options=frozenset({"delimiter"}),
        stream_options=frozenset({"text", "id", "sep", "delimiter"}),
        suffixes=(".csv", ".tsv"),
        kind_of=table_kind,
        text_twin="text-csv",
    ),
    "text-csv": Format(
        read_text_csv,
        write_text_csv,
        stream_table,
        read_options=frozenset({"labels", "text", "sep", "delimiter", "encoding"}),
        write_options=frozenset({"sep", "delimiter"}),
        stream_options=frozenset({"text", "id", "sep", "delimiter"}),
        numbers=False,
        texts=True,
        lists_labels=True,
    ),
    "jsonl": Format(
        read_json_lines,
        write_json_lines,
        stream_json_lines,
        read_options=frozenset({"labels", "missing", "drop", "text", "sep", "encoding"}),
        stream_options=frozenset({"text", "id", "sep"}),
        suffixes=(".jsonl", ".ndjson"),
        is_first_line=is_json_line,
        texts=True,
        lists_labels=True,
    ),
    "parquet": Format(
        read_parquet,
        write_parquet,
        stream_parquet,
        read_options=frozenset({"labels", "missing", "drop", "text"}),
        stream_options=frozenset({"text", "id"}),
        suffixes=(".parquet", ".pq"),
        magic=MAGIC,
        texts=True,
        needs_path=True,
    ),
}
FORMATS = tuple(TABLE)


def checked_format(format: str) -> Format:
    """Entry of a format that the user names."""
    if format not in TABLE:
        raise ValueError(f"format={format!r} is unknown, allowed are {', '.join(FORMATS)}")
    return TABLE[format]


def chosen_options(
    function: Callable[..., Any], format: str, takes: frozenset[str], options: dict[str, Any]
) -> dict[str, Any]:
    """Options that the format takes; ValueError when another one differs from its default in the function."""
    parameters = signature(function).parameters
    for key, value in options.items():
        if key not in takes and value != parameters[key].default:
            known = ", ".join(sorted(takes)) or "none of the kind"
            raise ValueError(f"{key}= means nothing to format {format!r}; it takes {known}")
    return {key: options[key] for key in takes}


def format_of_suffix(path: Path) -> str | None:
    """Format of a file to write, by its suffix; None: no format has it."""
    suffix = plain_suffix(path)
    return next((name for name, entry in TABLE.items() if suffix in entry.suffixes), None)


def may_hold_texts(path: Path, format: str | None) -> bool:
    """Tell whether a file may hold texts, by its format or else by a suffix that decides."""
    entry = TABLE.get(format or format_of_suffix(path) or "")
    return entry is None or entry.texts or entry.text_twin != "" or (format is None and not entry.suffix_decides)
