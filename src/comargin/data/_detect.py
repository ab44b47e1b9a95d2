"""Which format a data file is in."""

from __future__ import annotations

import re
from pathlib import Path

from ._arff_header import meka_labels, read_relation
from ._dataset import DataFormatError
from ._parquet import MAGIC
from ._source import TextSource, check_is_file, plain_suffix
from ._sparse_text import is_xmc_header
from ._table import csv_records
from ._text_table import is_text_header

FORMATS = ("mulan", "meka", "libsvm", "xmc", "csv", "text-csv", "jsonl", "parquet")
JSON_SUFFIXES = (".jsonl", ".ndjson")
_LABELS = re.compile(r"[0-9]++(?:,[0-9]++)*+")
_ARFF = re.compile(r"\s*@(?:relation|attribute|data)\b", re.IGNORECASE)
_ENTRY = re.compile(r"[0-9]++:.++")


def detect_format(path: str | Path) -> str:
    r"""Find out the format of a data file by its name, and by its first lines where the name leaves it open.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    str
        "mulan", "meka", "libsvm", "xmc", "csv", "text-csv", "jsonl" or "parquet".

    Notes
    -----
    ``.arff`` is "meka" when the relation name has ``-C n``, else "mulan". ``.csv`` and ``.tsv`` are
    "text-csv" when the header has the columns ``text`` and ``labels``, else "csv". ``.jsonl`` and ``.ndjson`` are
    "jsonl". Other names are looked into: ``n d L`` in the first line is "xmc", lines of ``labels index:value``
    without such a header are "libsvm", a first line that opens an object or a list of JSON is "jsonl".

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from comargin.data import detect_format
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.txt")
    ...     _ = path.write_text("0,2 1:0.5 3:1\n1 2:2\n")
    ...     detect_format(path)
    'libsvm'
    """
    return detect(Path(path), None)


def detect(path: Path, delimiter: str | None) -> str:
    """Find out the format; ``delimiter`` is that of the header if it is a CSV file, None: by the suffix."""
    check_is_file(path)
    suffix = plain_suffix(path)
    with path.open("rb") as file:
        if suffix in (".parquet", ".pq") or file.read(4) == MAGIC:
            return "parquet"
    if suffix in JSON_SUFFIXES:
        return "jsonl"
    if suffix in (".csv", ".tsv"):
        with TextSource(path, "latin-1") as source:
            header = next(csv_records(source, source.lines(), 1, delimiter_of(path, delimiter)), (1, []))[1]
        return "text-csv" if is_text_header(header) else "csv"
    with TextSource(path, "latin-1") as source:
        line = source.readline()
        while line is not None and (not line.strip() or line.lstrip().startswith(("#", "%"))):
            line = source.readline()
    if suffix == ".arff" or (line is not None and line.lstrip().startswith("@")):
        with TextSource(path, "latin-1") as source:
            return "mulan" if meka_labels(read_relation(source)) is None else "meka"
    if line is not None and is_xmc_header(line):
        return "xmc"
    if suffix in (".svm", ".libsvm") or (line is not None and _is_libsvm_line(line)):
        return "libsvm"
    if line is not None and _is_json_line(line):
        return "jsonl"
    raise DataFormatError(path, f"the format is not recognised; say format= (one of {', '.join(FORMATS)})")


def detect_by_line(line: bytes) -> str:
    """Format of what starts with this line (after blank lines and comments), as `detect_format` says it.

    Whatever is nothing else is taken for the header of a CSV file; one format stands for both kinds of ARFF
    files, and for both kinds of tables.
    """
    text = line.decode("latin-1")
    if text.startswith(MAGIC.decode()):
        return "parquet"
    if _is_json_line(text):
        return "jsonl"
    if _ARFF.match(text):
        return "mulan"
    if is_xmc_header(text):
        return "xmc"
    return "libsvm" if _is_libsvm_line(text) else "csv"


def _is_json_line(line: str) -> bool:
    return line.lstrip().startswith(("{", "["))


def _is_libsvm_line(line: str) -> bool:
    """Tell whether a line is ``label,label index:value ...``, token by token: linear in its length."""
    tokens = line.partition("#")[0].split()
    if not tokens:
        return False
    entries = tokens[1:] if _LABELS.fullmatch(tokens[0]) else tokens
    return all(_ENTRY.fullmatch(token) for token in entries)


def delimiter_of(path: Path, delimiter: str | None) -> str:
    """Delimiter of a CSV file: the one asked for, checked, or by the suffix."""
    if delimiter is None:
        return "\t" if plain_suffix(path) == ".tsv" else ","
    if (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or not delimiter.isascii()
        or delimiter in '\r\n"'
        or delimiter.isalnum()
        or delimiter in "+-."
    ):
        raise ValueError(f"delimiter={delimiter!r} must be one ASCII character that is not part of a number")
    return delimiter
