"""Which format a data file is in."""

from __future__ import annotations

from pathlib import Path

from ..core.files import plain_suffix
from ._dataset import DataFormatError
from ._source import check_is_file, first_line
from .format_table import FORMATS, TABLE

_LONGEST_MAGIC = max(len(entry.magic) for entry in TABLE.values())


def detect_format(path: str | Path) -> str:
    r"""Find out the format of a data file by its name, and by its first lines where the name leaves it open.

    Parameters
    ----------
    path : str or Path
        The file.

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
        start = file.read(_LONGEST_MAGIC)
    by_magic = [name for name, entry in TABLE.items() if entry.magic and start.startswith(entry.magic)]
    by_suffix = [name for name, entry in TABLE.items() if entry.suffix_decides and suffix in entry.suffixes]
    found = next(iter(by_magic + by_suffix), None) or _by_first_line(first_line(path))
    if found is None:
        raise DataFormatError(path, f"the format is not recognised; say format= (one of {', '.join(FORMATS)})")
    kind_of = TABLE[found].kind_of
    return found if kind_of is None else kind_of(path, delimiter)


def detect_by_line(line: bytes) -> str:
    """Format of what starts with this line (after blank lines and comments), as `detect_format` says it.

    Whatever is nothing else is taken for the header of a CSV file; one format stands for both kinds of ARFF
    files, and for both kinds of tables.
    """
    by_magic = [name for name, entry in TABLE.items() if entry.magic and line.startswith(entry.magic)]
    return next(iter(by_magic), None) or _by_first_line(line.decode("latin-1")) or "csv"


def _by_first_line(line: str) -> str | None:
    return next((name for name, entry in TABLE.items() if entry.is_first_line and entry.is_first_line(line)), None)
