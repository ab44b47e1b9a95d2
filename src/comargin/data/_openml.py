"""Multi-label sets from OpenML, through scikit-learn's downloader.

OpenML has the ten sets of Probst et al. (Multilabel classification with R package mlr, R Journal 9, 2017), dense,
with the labels as targets that are ``TRUE`` or ``FALSE``.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._arff import split_dense
from ._arff_header import Attribute, Header
from ._arff_plan import make_plan
from ._dataset import DataFormatError, Dataset
from .labels import label_of_cell, settled


class DatasetUnavailableError(OSError):
    """A known data set that is neither in the data folder nor available from OpenML.

    Parameters
    ----------
    name : str
        The data set.
    data_home : str or Path
        Where it was looked for.
    reason : str, default="it is not on OpenML"
        Why it was not fetched.
    """

    def __init__(self, name: str, data_home: str | Path, reason: str = "it is not on OpenML") -> None:
        self.name, self.data_home, self.reason = name, str(data_home), reason
        super().__init__(
            f"data set {name!r} is not in {data_home}, and could not be fetched: {reason}. "
            f"Put its files (ARFF and XML, as Mulan publishes them) into {Path(data_home) / name}, "
            "or name another data folder by data_home= or $COMARGIN_DATA."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.data_home, self.reason)


def fetch(name: str, openml_id: int, data_home: Path, drop: Sequence[str] = ()) -> Dataset:
    """Fetch a set from OpenML by its number, checked by its name; scikit-learn keeps a copy in its own cache."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error occurred", category=UserWarning)
            bunch = fetch_openml(data_id=openml_id, as_frame=False, parser="liac-arff", n_retries=1)
    except (OSError, ValueError) as error:  # no network, or OpenML's own error
        raise DatasetUnavailableError(name, data_home, f"OpenML did not answer ({error})") from error
    origin = f"OpenML data set {openml_id}"
    if bunch.details["name"].lower() != name:
        raise DataFormatError(origin, f"is named {bunch.details['name']!r}, expected {name!r}")
    targets = np.asarray(bunch.target)
    if targets.ndim != 2:
        raise DataFormatError(origin, "has one target, expected one per label")
    values, place = np.unique(targets.astype(str), return_inverse=True)
    numbers = np.array([label_of_cell(value) for value in values], dtype=np.float64)
    if np.isnan(numbers).any():
        wrong = str(values[np.isnan(numbers)][0])
        raise DataFormatError(origin, f"has the label value {wrong!r}, expected TRUE or FALSE")
    Y = settled(numbers[place].reshape(targets.shape))
    X, feature_names = _features(bunch, drop)
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise DataFormatError(origin, "has missing or infinite feature values")
    return Dataset(X, Y, feature_names, tuple(bunch.target_names), name)


def _features(bunch: Any, drop: Sequence[str]) -> tuple[np.ndarray | sp.csr_array, tuple[str, ...]]:
    """Columns of X and their names; nominal columns, which hold positions, are coded by the rules of ``read``."""
    nominal = bunch.categories or {}
    if sp.issparse(bunch.data) and not nominal and not drop:
        return sp.csr_array(bunch.data, dtype=np.float64), tuple(bunch.feature_names)
    attributes = [
        Attribute(name, "nominal" if name in nominal else "numeric", tuple(map(str, nominal.get(name, ()))), 0)
        for name in bunch.feature_names
    ]
    dropped = {j for j, attribute in enumerate(attributes) if attribute.name in drop}
    header = Header(bunch.details["name"], tuple(attributes))
    plan = make_plan(Path(header.relation), header, (), nominal="auto", missing="nan", drop=dropped)
    data = np.array(bunch.data.toarray() if sp.issparse(bunch.data) else bunch.data, dtype=np.float64)
    for j, column in enumerate(plan.columns):
        if column.codes is not None:
            known = ~np.isnan(data[:, j])
            data[known, j] = np.array(list(column.codes.values()))[data[known, j].astype(np.intp)]
    return split_dense(data, plan)[0], plan.feature_names
