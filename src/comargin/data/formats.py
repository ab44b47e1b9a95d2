"""Reading, writing, converting and recognising multi-label data files of all formats."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import whole_number
from ..core.files import AtomicFiles, plain_stem, plain_suffix
from ._arff_plan import MISSING, NOMINAL
from ._checks import check_dataset
from ._dataset import DataFormatError, Dataset, fill_missing
from ._source import TextSource, check_is_file, first_line
from ._table import delimiter_of
from .chunks import Rows, Wanted, stacked, with_settled_labels
from .format_table import FORMATS, TABLE, check_meaning, checked_format, format_of_suffix, rows_of
from .labels import UNLABELLED, indicator, with_unknown_rows

_ASCII = "0123456789+-.eE,:;{}@'\"% \t\n"
_ALL_DROPPED = (
    "every row misses a label, so that unlabelled='drop' leaves none; unlabelled='negative' takes missing labels as "
    "off, and rows to predict need no labels"
)
_LONGEST_MAGIC = max(len(entry.magic) for entry in TABLE.values())


def read(
    path: str | Path,
    *,
    format: str | None = None,
    labels: str | Path | int | Sequence[str] | None = None,
    nominal: str = "auto",
    missing: str = "error",
    unlabelled: str | None = None,
    name: str | None = None,
    drop: Sequence[str] = (),
    n_features: int | None = None,
    n_labels: int | None = None,
    index_base: int = 1,
    label_base: int = 0,
    text: str | None = None,
    sep: str = ";",
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    r"""Read a multi-label data file.

    Parameters
    ----------
    path : str or Path
        The file; text formats may be gzipped (``.gz``).
    format : str or None
        "mulan" (ARFF and XML), "meka" (ARFF with ``-C n``), "libsvm", "xmc", "csv", "text-csv", "jsonl" or
        "parquet"; None: as `detect_format` finds it.
    labels : str, Path, int, sequence of str or None
        Which columns are labels: their names in the order wanted, or a number of leading (> 0) or trailing (< 0)
        columns; for ARFF also the path of an XML list. None: for "mulan" the XML beside the file (same stem, else
        without ``-train``, ``-valid`` or ``-test``, else the only one of the folder), for "meka" the relation name, for
        tables the prefix ``label:``. For texts several names, or a number, are columns of 0 and 1, and one name is the
        column of label lists, as for "jsonl"; None: ``labels``, or the prefix.
    nominal : {"auto", "onehot"}
        Nominal ARFF attributes. "auto": values that are all numbers stay numbers; two values become 0/1, by
        meaning (no/yes, false/true, off/on, ...) or else the second declared one is 1; more become columns
        ``attribute=value``. "onehot" makes columns of numbers too when there are more than two.
    missing : {"error", "nan", "zero", "mean"}
        Missing values (``?`` in ARFF, empty cells, nulls): an error naming file and line, NaN, 0, or the
        mean of the column's other values.
    unlabelled : {"drop", "negative", "unknown"} or None
        Missing labels (``?`` in ARFF, empty cells, nulls, empty lists of labels): "negative" takes them as labels that
        are off, "drop" leaves out rows with one, and "unknown" makes Y NaN there, which counts nowhere. None: off in
        lists, and an error naming file and line elsewhere.
    name : str or None
        Name of the data set; None: the stem of the file.
    drop : sequence of str
        Attributes, columns or fields to leave out.
    n_features, n_labels : int or None
        Shape of a "libsvm" file; None: as its indices say.
    index_base, label_base : {0, 1}
        What features and labels of a "libsvm" file count from.
    text : str or None
        Text column of texts with tags ("text-csv", "jsonl", "parquet"); None: ``text``.
    sep : str
        Between the labels of a "text-csv" cell, or of a string of labels in "jsonl".
    delimiter : str or None
        Between the cells of a CSV file; None: the one of comma, semicolon, tab and bar that its header has.
    encoding : str
        Encoding of text formats.

    Returns
    -------
    Dataset
        X is float64: dense as the file is dense, CSR as it is sparse (or a list of texts); Y is int32, dense
        or CSR like X (CSR for label lists), or float64 if it has unknown cells.

    Raises
    ------
    DataFormatError
        When the file cannot be read; names file, line and reason.

    Notes
    -----
    In a sparse ARFF row an attribute left out has the value 0, which for a nominal one is, as in Weka, the
    FIRST declared value: in a sparse file ``{1,2}`` left out is 1, and ``{YES,NO}`` is YES. String and date
    attributes are errors unless dropped. Entries of a sparse row may come in any order, but not twice.

    Features of "jsonl" are all fields but that of the labels, in the order of the first row. Later rows have the
    same ones: what they lack is missing, and others are errors unless dropped. A field ``features`` that holds a
    list or an object has all features of the row in it, and fields beside it do not count.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from comargin.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.csv")
    ...     _ = path.write_text("height,label:tall,label:blue\n1.8,1,0\n1.5,0,1\n")
    ...     data = read(path)
    >>> data.X.tolist(), data.Y.tolist(), data.label_names
    ([[1.8], [1.5]], [[1, 0], [0, 1]], ('tall', 'blue'))
    """
    path, labels, drop = Path(path), checked_labels(labels), checked_names("drop", drop)
    options: dict[str, Any] = {"text": text, "sep": sep, "delimiter": delimiter, "encoding": encoding}
    options |= {"labels": labels, "drop": drop, "missing": missing, "nominal": nominal, "unlabelled": unlabelled}
    options |= {"n_features": n_features, "n_labels": n_labels, "index_base": index_base, "label_base": label_base}
    check_options(options)
    format = detect(path, delimiter) if format is None else format
    entry = checked_format(format)
    check_meaning(read, format, entry.read_options, options)
    wanted = Wanted(
        n_features=n_features,
        n_labels=n_labels,
        labels=True if labels is None else labels,
        missing=missing,
        unlabelled=unlabelled,
        drop=drop,
    )
    try:
        if entry.needs_path:
            dataset = _whole(rows_of(format, path, path, wanted, options), path, missing, unlabelled)
        else:
            with TextSource(path, encoding) as source:
                dataset = _whole(rows_of(format, path, source, wanted, options), path, missing, unlabelled)
    except MemoryError as error:
        raise DataFormatError(path, "does not fit into memory") from error
    return replace(dataset, name=plain_stem(path) if name is None else name)


def _whole(rows: Rows, path: Path, missing: str, unlabelled: str | None) -> Dataset:
    """All rows of a file; DataFormatError when there is none, or no label at all."""
    Xs, Ys = [], []
    for part in rows.parts():
        part = with_settled_labels(part, unlabelled)
        Xs.append(part.X)
        Ys.append(part.labels)
    if not Xs:
        raise DataFormatError(path, "has no rows")
    if unlabelled == "drop" and not any(Y if isinstance(Y, list) else Y.shape[0] for Y in Ys):
        raise DataFormatError(path, _ALL_DROPPED)
    X, Y, label_names = stacked(Xs), stacked(Ys), tuple(rows.label_names or ())
    if isinstance(Y, list):
        Y, label_names = indicator(Y, rows.label_names)
        if not label_names:
            raise DataFormatError(path, "no row has a label")
        Y = with_unknown_rows(Y) if unlabelled == "unknown" else Y
    return Dataset(fill_missing(X, missing), Y, rows.feature_names, label_names, "")


def checked_names(argument: str, names: Any) -> tuple[str, ...]:
    """Names as a tuple; ValueError for anything but a sequence of strings, also for one string."""
    try:
        found = (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        found = (names,)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        also = " or a number of columns" if argument == "labels" else ""
        raise ValueError(f"{argument}={names!r} must be a sequence of names{also}")
    return found


def checked_labels(labels: Any) -> Any:
    """None, a name or a file, a number of columns, or a tuple of names; ValueError for anything else."""
    if labels is None or isinstance(labels, (str, Path)):
        return labels
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        return int(labels)
    return checked_names("labels", labels)


def check_options(options: dict[str, Any]) -> None:
    """Refuse values that no format takes."""
    base = (0, 1)
    for key, allowed in (
        ("nominal", NOMINAL),
        ("missing", MISSING),
        ("index_base", base),
        ("label_base", base),
        ("unlabelled", (None, *UNLABELLED)),
    ):
        if options[key] not in allowed:
            raise ValueError(f"{key}={options[key]!r}, allowed are {', '.join(map(repr, allowed))}")
    for key in ("n_features", "n_labels"):
        value = options.get(key)
        if value is not None:
            whole_number(key, value)
    for key in ("text", "delimiter"):
        if not isinstance(options[key], (str, type(None))):
            raise ValueError(f"{key}={options[key]!r} must be None or a string")
    labels = options["labels"]
    named = {labels} if isinstance(labels, str) else set(labels) if isinstance(labels, tuple) else set()
    twice = named.intersection(options.get("drop", ()))
    if twice:
        raise ValueError(f"labels= and drop= both name {min(twice)!r}")
    check_sep("sep", options["sep"])
    # Readers look for line ends, separators and digits as the bytes they are in ASCII.
    encoding = options["encoding"]
    try:
        has_ascii = isinstance(encoding, str) and _ASCII.encode(encoding).endswith(_ASCII.encode("ascii"))
    except (LookupError, UnicodeError) as error:
        raise ValueError(f"encoding={encoding!r} is unknown") from error
    if not has_ascii:
        raise ValueError(f"encoding={encoding!r} must name an encoding that contains ASCII, such as utf-8 or latin-1")


def check_sep(argument: str, sep: Any) -> None:
    """Refuse a separator of labels that is not a string or is empty."""
    if not isinstance(sep, str) or not sep:
        raise ValueError(f"{argument}={sep!r} must be a string that is not empty")


def detect_format(path: str | Path) -> str:
    r"""Tell the format of a data file by its name, and by its first lines where the name leaves it open.

    Parameters
    ----------
    path : str or Path
        The file.

    Notes
    -----
    ``.arff`` is "meka" when the relation name has ``-C n`` and no XML of the same stem lies beside the file, else
    "mulan". ``.csv`` and ``.tsv`` are "text-csv" when the header has the columns ``text`` and ``labels``, else "csv".
    ``.jsonl`` and ``.ndjson`` are "jsonl". For other names the first line decides: ``n d L`` is "xmc",
    ``labels index:value`` is "libsvm", the start of an object or a list of JSON is "jsonl".

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
    """Format of a file; ``delimiter`` is that of the header if it is a CSV file, None: to be found."""
    check_is_file(path)
    suffix = plain_suffix(path)
    with path.open("rb") as file:
        start = file.read(_LONGEST_MAGIC)
    by_suffix = (name for name, entry in TABLE.items() if entry.suffix_decides and suffix in entry.suffixes)
    found = _by_magic(start) or next(by_suffix, None) or _by_first_line(first_line(path))
    if found is None:
        raise DataFormatError(path, f"the format is not recognised; say format= (one of {', '.join(FORMATS)})")
    kind_of = TABLE[found].kind_of
    return found if kind_of is None else kind_of(path, delimiter)


def detect_by_line(line: bytes) -> str:
    """Format of a stream whose first line, after blank lines and comments, is this one.

    The default is CSV; one format stands for both kinds of ARFF files, and for both kinds of tables.
    """
    return _by_magic(line) or _by_first_line(line.decode("latin-1")) or "csv"


def _by_magic(start: bytes) -> str | None:
    return next((name for name, entry in TABLE.items() if entry.magic and start.startswith(entry.magic)), None)


def _by_first_line(line: str) -> str | None:
    return next((name for name, entry in TABLE.items() if entry.is_first_line and entry.is_first_line(line)), None)


def write(
    dataset: Dataset, path: str | Path, *, format: str | None = None, sep: str = ";", delimiter: str | None = None
) -> list[Path]:
    """Write a data set so that `read` gives it back: X and Y exactly, names where the format holds names.

    Parameters
    ----------
    dataset : Dataset
        What to write.
    path : str or Path
        Where; text formats are gzipped when it ends in ``.gz``.
    format : str or None
        As in `read`; None: by the suffix (``.arff`` mulan, ``.csv`` and ``.tsv`` tables, ``.parquet``,
        ``.jsonl`` and ``.ndjson``, ``.svm`` and ``.libsvm``, ``.txt`` xmc).
    sep : str
        Between the labels of a "text-csv" cell.
    delimiter : str or None
        Between the cells of a CSV file.

    Returns
    -------
    list of Path
        Files written ("mulan" writes two). Each appears whole or not at all; foreseeable failures (a target that is
        a folder, a full disk, data the format cannot hold) happen before the first of them is replaced.

    Notes
    -----
    Unknown labels (NaN) are kept by ARFF and tables of numbers, and need ``unlabelled="unknown"`` in `read`.
    "libsvm" and "xmc" hold no names, and no NaN; ARFF holds NaN as ``?`` and tables as empty cells or
    nulls, which need ``missing="nan"`` in `read`. Tables, "jsonl" and sparse formats do not keep whether X was
    sparse. Data that a format cannot hold without loss (infinite values, a label with the separator in its name, a
    feature and a label of one name in ARFF, ...) are a ValueError.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from comargin.data import Dataset, read, write
    >>> X, Y = np.array([[0.1], [2.0]]), np.array([[1], [0]], dtype=np.int32)
    >>> data = Dataset(X, Y, ("a",), ("tall",), "tiny")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write(data, f"{folder}/tiny.arff")
    ...     again = read(paths[0])
    >>> [path.name for path in paths], again.X.tolist()
    (['tiny.arff', 'tiny.xml'], [[0.1], [2.0]])
    """
    path = Path(path)
    check_sep("sep", sep)
    dataset = check_dataset(dataset)
    if path.is_dir():
        raise ValueError(f"path: {path} is a folder")
    target = _target_format(path, format)
    entry = TABLE[target]
    if isinstance(dataset.X, list) and not entry.texts:
        *names, last = (repr(name) for name, other in TABLE.items() if other.texts)
        raise ValueError(f"format={target!r}: texts go into {', '.join(names)} or {last}")
    if dataset.Y.dtype.kind == "f" and (isinstance(dataset.X, list) or not entry.holds_unknown):
        able = ", ".join(repr(name) for name, other in TABLE.items() if other.holds_unknown)
        raise ValueError(f"format={target!r} holds no unknown labels (NaN in Y): features with them go into {able}")
    options: dict[str, Any] = {"sep": sep}
    if "delimiter" in entry.write_options:
        options["delimiter"] = delimiter_of(path, delimiter)
    with AtomicFiles() as files:
        entry.write(dataset, path, files, **{key: options[key] for key in entry.write_options})
    return files.paths


def _target_format(path: Path, format: str | None) -> str:
    """Return the given format, checked, or that of the suffix ("csv" for both kinds of tables)."""
    found = format_of_suffix(path) if format is None else format
    if found is None:
        raise ValueError(f"the suffix of {path.name!r} names no format; say format= (one of {', '.join(FORMATS)})")
    checked_format(found)
    return found


def target_files(path: str | Path, format: str | None = None) -> list[Path]:
    """Files that `write` makes or replaces: the file, and for "mulan" its XML."""
    path = Path(path)
    label_file = TABLE[_target_format(path, format)].label_file
    return [path] if label_file is None else [path, label_file(path)]


def convert(
    source: str | Path,
    target: str | Path,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    target_sep: str = ";",
    target_delimiter: str | None = None,
    **options: Any,
) -> Dataset:
    r"""Read one file, write its data to another, and return them.

    Parameters
    ----------
    source, target : str or Path
        The files.
    source_format, target_format : str or None
        Their formats; None: as `read` and `write` find them.
    target_sep, target_delimiter : str
        As ``sep`` and ``delimiter`` of `write`.
    **options : dict
        Further arguments of `read`, about the source.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from comargin.data import convert, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     start, end = pathlib.Path(folder, "a.svm"), pathlib.Path(folder, "b.csv")
    ...     _ = start.write_text("0 1:2.5\n1 2:1\n")
    ...     _ = convert(start, end)
    ...     read(end).X.tolist()
    [[2.5, 0.0], [0.0, 1.0]]
    """
    dataset = read(source, format=source_format, **options)
    write(dataset, target, format=target_format, sep=target_sep, delimiter=target_delimiter)
    return dataset
