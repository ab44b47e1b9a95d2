"""Checks of the candidate classes of zero-shot classification and of the attributes of the training rows."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.indicator import check_indicator, refuse_label_sets


@dataclass(frozen=True)
class Candidates:
    """The candidate classes in the order of their names."""

    names: np.ndarray  # (n_classes,), sorted, distinct
    signatures: np.ndarray  # int64 (n_classes, n_labels) in {0, 1}, rows distinct
    prior: np.ndarray  # (n_classes,), positive, with sum 1


def read_candidates(signatures: Any, class_names: Any, class_prior: Any) -> Candidates:
    """Check the three parameters of ``ZeroShotClassifier`` that describe the candidates; sort the classes by name."""
    refuse_label_sets(signatures, "signatures")
    given = signatures if sp.issparse(signatures) else np.asarray(signatures)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"signatures must have shape (n_classes, n_labels), at least 1 x 1; got {given.shape}")
    table = check_indicator(given, "signatures").toarray().astype(np.int64)
    names = _read_names(signatures, class_names, table.shape[0])
    _, number = np.unique(table, axis=0, return_inverse=True)
    for a, b in pairwise(np.argsort(number, kind="stable")):
        if number[a] == number[b]:
            raise ValueError(
                f"signatures of the classes {names[a].item()!r} and {names[b].item()!r} are equal, so that nothing can "
                "tell these classes apart: make them one class, or add an attribute"
            )
    prior = _read_prior(class_prior, names)
    by_name = np.argsort(names)
    return Candidates(names[by_name], table[by_name], prior[by_name])


def _read_names(signatures: Any, class_names: Any, n_classes: int) -> np.ndarray:
    if class_names is None:
        class_names = signatures.index if hasattr(signatures, "columns") else np.arange(n_classes)
    if isinstance(class_names, str) or not np.iterable(class_names):
        raise ValueError(f"class_names must be a sequence of {n_classes} names; got {class_names!r}")
    values = list(class_names)
    if len(values) != n_classes:
        raise ValueError(f"class_names has {len(values)} names, but signatures has {n_classes} classes (rows)")
    strings = [isinstance(value, str) for value in values]
    names = np.asarray(values) if all(strings) or not any(strings) else np.empty(0, dtype=object)
    if names.ndim != 1 or names.dtype.kind not in "biufU" or (names != names).any():
        raise ValueError(f"class_names must be all strings or all numbers; got {values!r}")
    distinct, counts = np.unique(names, return_counts=True)
    if len(distinct) < n_classes:
        raise ValueError(f"class_names must be distinct; {distinct[counts > 1][0].item()!r} occurs more than once")
    return names


def _read_prior(class_prior: Any, names: np.ndarray) -> np.ndarray:
    n_classes = len(names)
    if class_prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    if hasattr(class_prior, "items"):  # a dict or a Series, e.g. of value_counts(normalize=True): order means nothing
        given = dict(class_prior.items())
        keys = names.tolist()
        if set(given) != set(keys):
            raise ValueError(f"class_prior must have one entry per class, {keys}; got those of {list(given)}")
        class_prior = [given[key] for key in keys]
    try:
        prior = np.asarray(class_prior, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_prior must hold numbers, one per class: {error}") from error
    if prior.shape != (n_classes,):
        raise ValueError(f"class_prior must have shape ({n_classes},), one probability per class; got {prior.shape}")
    if not np.isfinite(prior).all() or prior.min() <= 0:
        worst = int(np.argmin(np.where(np.isfinite(prior), prior, -np.inf)))
        raise ValueError(
            f"class_prior must be positive and finite; that of class {names[worst].item()!r} is {prior[worst]:g}. "
            "Leave classes that cannot occur out of signatures"
        )
    if not np.isclose(prior.sum(), 1.0, rtol=1e-9, atol=0.0):
        raise ValueError(f"class_prior must sum to 1, got {prior.sum():.6g}; divide counts by their sum")
    return prior


def read_attributes(y: Any, signatures: Any, n_labels: int) -> Any:
    """Check the attributes of the training rows; returns an int64 indicator, sparse when y was sparse."""
    if y is None:
        raise ValueError(
            "ZeroShotClassifier requires y to be passed, but the target y is None: give the attributes of every row"
        )
    refuse_label_sets(y, "y")
    given = y if sp.issparse(y) else np.asarray(y)
    if given.ndim != 2:
        raise ValueError(
            "y must be the attributes of every row, an indicator of shape (n_samples, n_labels), not their classes: "
            f"look these up in the signatures of the training classes. Got shape {given.shape}"
        )
    # Not int8: scikit-learn's LabelBinarizer mixes up the labels of an int8 y with more than 128 labels.
    indicator = check_indicator(given, "y").astype(np.int64)
    if indicator.shape[1] != n_labels:
        raise ValueError(
            f"y has {indicator.shape[1]} attributes (columns), signatures has {n_labels}: both need the same, in the "
            "same order"
        )
    for k, (ours, theirs) in enumerate(zip(_column_names(signatures), _column_names(y), strict=False)):
        if ours != theirs:
            raise ValueError(
                f"y and signatures need the same columns in the same order: column {k} is {theirs!r} in y and {ours!r} "
                "in signatures"
            )
    if not sp.issparse(y):
        return indicator.toarray()
    return indicator if isinstance(y, sp.sparray) else sp.csr_matrix(indicator)


def _column_names(table: Any) -> list[str]:
    """Names of the columns of a DataFrame, when they are strings."""
    names = list(getattr(table, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else []
