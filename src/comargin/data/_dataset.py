"""The data set that readers and generators return and writers take."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.wording import counted

# Not int8: scikit-learn's LabelBinarizer, and so OneVsRestClassifier, mixes up the labels of an int8 indicator with
# more than 128 columns.
LABEL_DTYPE = np.int32


class DataFormatError(ValueError):
    """A data file that cannot be read: names the file, the line (1-based, where there is one) and the reason."""

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path, self.line, self.reason = str(path), line, reason
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.reason, self.line)


def looks_like_text(value: str) -> bool:
    """Tell whether a value is words rather than a code: it has letters and a blank."""
    return any(map(str.isalpha, value)) and any(map(str.isspace, value))


def not_a_number_advice(name: str, may_be_text: bool) -> str:
    """Advice at the end of a message about a feature column that does not hold numbers."""
    return f" ({f'is it a text? text={name!r} reads it as one; ' if may_be_text else ''}drop= leaves it out)"


@dataclass(frozen=True, repr=False)
class Dataset:
    """A multi-label data set.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features), csr_array, or list of str
        Features, dense or CSR as the data is; for text files the raw texts.
    Y : ndarray or csr_array of shape (n_samples, n_labels)
        Label indicator with entries in {0, 1}, dtype int32; float64 with NaN (stored, if sparse) where a label is
        unknown.
    feature_names, label_names : tuple of str
        Column names. ``feature_names`` is empty for raw texts.
    name : str
        Name of the data set.
    extra : dict
        What a particular set adds, e.g. ``signatures`` and ``y`` (class per row) of ``load("digits")``.
    """

    X: np.ndarray | sp.csr_array | list[str]
    Y: np.ndarray | sp.csr_array
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]
    name: str
    extra: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = np.shape(self.Y)
        labels = counted(shape[1], "label") if len(shape) == 2 else f"Y of shape {shape}"
        rows = counted(shape[0], "row") if shape else "no rows"
        if isinstance(self.X, list):
            features = "texts"
        elif len(np.shape(self.X)) == 2:
            form = "sparse" if sp.issparse(self.X) else "dense"
            features = f"{counted(np.shape(self.X)[1], 'feature')} ({form})"
        else:
            features = f"X of shape {np.shape(self.X)}"
        return f"Dataset({self.name!r}: {rows}, {features}, {labels})"


def fill_missing(X: Any, missing: str) -> Any:
    """Replace NaN in place if ``missing`` is "zero" or "mean": by 0, or by the mean of the column's other values.

    Zeros of a sparse column count in its mean; texts have no NaN.
    """
    if missing not in ("zero", "mean") or isinstance(X, list):
        return X
    values = X.data if sp.issparse(X) else np.asarray(X)
    gaps = np.isnan(values)
    columns = X.indices[gaps] if sp.issparse(X) else np.nonzero(gaps)[1]
    values[gaps] = 0.0
    if missing == "mean" and columns.size:
        totals = np.asarray(X.sum(axis=0)).ravel()
        known = X.shape[0] - np.bincount(columns, minlength=X.shape[1])
        means = np.divide(totals, known, out=np.zeros(X.shape[1]), where=known > 0)
        values[gaps] = means[columns]
    if sp.issparse(X):
        X.eliminate_zeros()
    return X


def as_dense(A: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.asarray(A.toarray() if sp.issparse(A) else A, dtype=dtype)


def entries_of(A: Any) -> Iterator[list[tuple[int, float]]]:
    """Yield columns and values of every row of a sparse X or Y, without zeros that are stored."""
    rows = sp.csr_array(A)
    for start, end in pairwise(rows.indptr.tolist()):
        columns, values = rows.indices[start:end].tolist(), rows.data[start:end].tolist()
        yield [(j, value) for j, value in zip(columns, values, strict=True) if value != 0]


_HEX = 16  # digits kept of a hash: 64 bits
# Rows of a block: so many cells, and not less than so many rows.
_CELLS, _LEAST_ROWS = 1 << 20, 64


def fingerprint(X: Any, Y: Any) -> str:
    """Hash of features and labels.

    Numbers that are equal give the same digits, whether they are stored dense or sparse, in whatever integer type.

    Parameters
    ----------
    X : ndarray, sparse matrix or list of str
        Features or texts.
    Y : ndarray or sparse matrix
        Label indicator.

    Examples
    --------
    >>> from comargin.data import fingerprint
    >>> fingerprint([[1.0, 0.0]], [[1, 0]]) == fingerprint([[1.0, 0.0]], [[True, False]])
    True
    """
    digest = hashlib.sha256()
    for part in (X, Y):
        if isinstance(part, list) and part and isinstance(part[0], str):
            for text in part:
                data = text.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
            continue
        matrix = sp.csr_array(part) if sp.issparse(part) else np.asarray(part, dtype=np.float64)
        digest.update(np.array(matrix.shape, dtype=np.int64).tobytes())
        # In blocks of rows, as all of it as a sparse matrix is several times the size of dense features.
        height = max(_LEAST_ROWS, _CELLS // max(matrix.shape[1], 1))
        for first in range(0, matrix.shape[0], height):
            block = sp.csr_array(matrix[first : first + height]).astype(np.float64)
            block.sum_duplicates()
            block.eliminate_zeros()
            for values, kind in ((block.indptr, np.int64), (block.indices, np.int64), (block.data, np.float64)):
                digest.update(np.ascontiguousarray(values, dtype=kind).data)
    return digest.hexdigest()[:_HEX]
