"""Rows of files of any length, a chunk at a time, for prediction and evaluation."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from ..core.checks import whole_number
from ._dataset import DataFormatError, fill_missing
from ._source import TextSource, check_is_file
from .chunks import Chunk, Rows, Wanted, regroup, with_settled_labels
from .format_table import TABLE, check_meaning, checked_format, rows_of
from .formats import check_options, checked_labels, checked_names, detect, detect_by_line
from .labels import tags_of, unknown_of

STANDARD = "-"
Source = str | Path | IO[bytes]


def stream(
    source: Source,
    *,
    chunk_rows: int = 4096,
    format: str | None = None,
    text: str | None = None,
    feature_names: Sequence[str] = (),
    n_features: int | None = None,
    labels: bool | str | Path | int | Sequence[str] | None = None,
    id: str | None = None,
    sep: str = ";",
    delimiter: str | None = None,
    encoding: str = "utf-8",
    missing: str = "error",
    unlabelled: str | None = None,
    nominal: str = "auto",
    index_base: int = 1,
    label_base: int = 0,
) -> Iterator[Chunk]:
    r"""Read the rows of a file of any length in chunks: memory does not grow with the file.

    Parameters
    ----------
    source : str, Path or binary stream
        The file; "-" is the standard input. Text formats may be gzipped.
    chunk_rows : int
        Rows of a chunk; the last one has fewer, and so have chunks that would take more than about 64 MiB.
    format : str or None
        As in `read`; None: as `detect_format` finds it. The first line of a stream without a name decides: JSON
        Lines, ARFF, "xmc", "libsvm", or else CSV.
    text : str or None
        Text column, when texts are wanted. None: ``text``, if there is such a column and neither
        ``feature_names`` nor ``n_features`` asks for numbers.
    feature_names : sequence of str
        Columns of X, in order; they are found by name, and other columns are left out. Empty: all columns
        that are not labels.
    n_features : int or None
        Number of columns of X of a file without names. For "libsvm" the bound of the indices, and needed unless
        ``feature_names`` is given or the file says it.
    labels : bool, str, Path, int, sequence of str or None
        None: labels need not be there, and are left out where they are. True: read those that `read` would
        find (label columns, XML, relation name; for "jsonl" the field ``labels``). Else as in `read`: columns
        (names may leave out the prefix ``label:``), or the one column of label lists of texts and of "jsonl".
        For "libsvm" and "xmc" True calls them ``y0``, ``y1``, ...; a sequence names them in order.
    id : str or None
        Column that names the rows, passed through as it is written (tables and "jsonl").
    sep, delimiter, encoding : str
        As in `read`.
    missing : {"error", "nan", "zero"}
        Missing values; the mean of a column is not known before its end.
    unlabelled : {"drop", "negative", "unknown"} or None
        Missing labels, where labels are wanted: as in `read`.
    nominal, index_base, label_base : object
        As in `read`.

    Yields
    ------
    Chunk
        X, number of the first row, names of the rows and labels.

    Raises
    ------
    DataFormatError
        When the file cannot be read; names file, line and reason. Chunks before the fault are yielded.

    Examples
    --------
    >>> import io
    >>> from comargin.data import stream
    >>> lines = io.BytesIO(b'{"text": "red wine"}\n{"text": "white bread"}\n{"text": "tea"}\n')
    >>> for chunk in stream(lines, chunk_rows=2):
    ...     print(chunk.first_row, chunk.X)
    0 ['red wine', 'white bread']
    2 ['tea']

    Columns are found by name:

    >>> table = io.BytesIO(b"width,height,colour\n3,4,red\n5,6,blue\n")
    >>> next(stream(table, feature_names=["height", "width"])).X.tolist()
    [[4.0, 3.0], [6.0, 5.0]]
    """
    whole_number("chunk_rows", chunk_rows, 1)
    if format is not None:
        checked_format(format)
    feature_names = checked_names("feature_names", feature_names)
    labels = labels if labels is True else checked_labels(labels)
    checked = {
        "missing": missing,
        "encoding": encoding,
        "n_features": n_features,
        "labels": labels,
        "unlabelled": unlabelled,
    }
    options: dict[str, Any] = {"text": text, "id": id, "sep": sep, "delimiter": delimiter}
    options |= {"nominal": nominal, "index_base": index_base, "label_base": label_base}
    check_options(options | checked)
    if missing == "mean":
        raise ValueError("missing='mean' needs the whole file; allowed here are 'error', 'nan', 'zero'")
    if not isinstance(id, (str, type(None))):
        raise ValueError(f"id={id!r} must be None or the name of a column")
    if text is not None and (feature_names or n_features is not None):
        raise ValueError("text= asks for texts, feature_names= and n_features= for numbers: say one of them")
    if feature_names and n_features not in (None, len(feature_names)):
        raise ValueError(f"n_features={n_features}, but feature_names= has {len(feature_names)} names")
    if isinstance(source, (str, Path)) and str(source) != STANDARD:
        check_is_file(Path(source))
    wanted = Wanted(feature_names, n_features, labels, id, missing, unlabelled)
    return _chunks(source, format, wanted, options, encoding, int(chunk_rows))


def _chunks(
    source: Source, format: str | None, wanted: Wanted, options: dict[str, Any], encoding: str, chunk_rows: int
) -> Iterator[Chunk]:
    with ExitStack() as stack:
        path, file = _opened(source, stack)
        if file is None and format is None:
            format = detect(path, options["delimiter"])
        rows: TextSource | Path = path
        if file is not None or format is None or not TABLE[format].needs_path:
            rows = stack.enter_context(TextSource(path, encoding, stream=file, whole=False))
            if format is None:
                first = rows.first_line()
                if not first:
                    raise rows.fail("is empty")
                format = detect_by_line(first)
            if TABLE[format].needs_path:
                what = f"is {format.capitalize()}, which is read from its end and so cannot be a stream"
                raise rows.fail(f"{what}: save it as a file")
        is_empty = True
        check_meaning(stream, format, TABLE[format].stream_options, options)
        for chunk in regroup(_parts(rows_of(format, path, rows, wanted, options), wanted), chunk_rows):
            is_empty = False
            yield chunk
        if is_empty:
            raise DataFormatError(path, "has no rows")


def _opened(source: Source, stack: ExitStack) -> tuple[Path, IO[bytes] | None]:
    """Name for messages, and the stream; None for a file, which can be opened more than once."""
    if isinstance(source, (str, Path)) and str(source) != STANDARD:
        path = Path(source)
        # A pipe, such as the shell's <(...), can be opened only once.
        return path, None if path.is_file() else stack.enter_context(path.open("rb"))
    if isinstance(source, (str, Path)):
        if sys.stdin is None or sys.stdin.closed:
            raise ValueError("source: '-' is the standard input, which is closed")
        return Path("<stdin>"), sys.stdin.buffer
    if not hasattr(source, "read"):
        raise ValueError(f"source={source!r} must be a path, '-' or a binary stream")
    name = getattr(source, "name", None)
    return Path(name if isinstance(name, str) and name else "<stream>"), source


def _parts(rows: Rows, wanted: Wanted) -> Iterator[Chunk]:
    """Parts of any size, with the names of their labels."""
    for part in rows.parts():
        if wanted.labels is not None:
            part = with_settled_labels(part, wanted.unlabelled)
        tags = None if wanted.labels is None else part.labels
        unknown = None
        if tags is not None and wanted.unlabelled == "unknown":
            unknown = unknown_of(tags, rows.label_names or ())
        if tags is not None and not isinstance(tags, list):
            tags = tags_of(tags, rows.label_names or ())
        yield Chunk(fill_missing(part.X, wanted.missing), 0, part.ids, tags, unknown)
