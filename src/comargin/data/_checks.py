"""Checks before writing: canonical arrays and complete, distinct names."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.indicator import check_labels
from ._dataset import LABEL_DTYPE, Dataset
from .sparse_text import generated_names


def check_dataset(dataset: Dataset) -> Dataset:
    """Return the data set with canonical arrays and complete names; ValueError for what no format can hold."""
    Y = check_labels(dataset.Y, "dataset: Y")
    Y = Y if sp.issparse(dataset.Y) else Y.toarray()
    if 0 in Y.shape:
        raise ValueError(f"dataset: Y has shape {Y.shape}, expected at least one row and one label")
    feature_names = tuple(dataset.feature_names)
    X: Any = dataset.X
    if isinstance(X, list):
        n_rows, n_columns = len(X), 0
        _check_texts([*X], "X")
    else:
        X = _features(X)
        n_rows, n_columns = X.shape
        feature_names = feature_names or generated_names("x", n_columns)
    if n_rows != Y.shape[0]:
        raise ValueError(f"dataset: X has {n_rows} rows, Y has {Y.shape[0]}")
    label_names = tuple(dataset.label_names) or generated_names("y", Y.shape[1])
    columns = (("feature_names", feature_names, n_columns), ("label_names", label_names, Y.shape[1]))
    for what, names, n in columns:
        if len(names) != n:
            raise ValueError(f"dataset: {what} has {len(names)} names for {n} columns")
        if len(set(names)) < n:
            raise ValueError(f"dataset: {what} holds a name twice")
        _check_texts([*names], what)
        if "" in names:
            raise ValueError(f"dataset: {what} holds an empty name")
    Y = Y if Y.dtype.kind == "f" else Y.astype(LABEL_DTYPE)  # float64 has NaN in unknown cells
    return replace(dataset, X=X, Y=Y, feature_names=feature_names, label_names=label_names)


def _features(X: Any) -> Any:
    """X as float64, dense or CSR without duplicates; a copy when it is CSR."""
    X = sp.csr_array(X, dtype=np.float64, copy=True) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"dataset: X has {X.ndim} dimensions, expected 2 or a list of texts")
    if sp.issparse(X):
        X.sum_duplicates()
    if np.isinf(X.data if sp.issparse(X) else X).any():
        raise ValueError("dataset: X holds infinite values, which no format takes")
    return X


def _check_texts(texts: list[Any], what: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"dataset: {what} must hold strings, found {type(text).__name__}")
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text if not c.isascii()):
            raise ValueError(f"dataset: {what} holds a text with NUL or half a surrogate pair: {text[:40]!r}")
