"""Rows by one word, the name of a file or of a known set: all of them, or those to learn from and to measure on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ._dataset import Dataset
from .catalogue import DatasetInfo, list_datasets, load
from .formats import detect_format, read
from .matching import matched


def is_file(source: str) -> bool:
    """Whether a source is a file or a pipe; a folder that is called like a known set does not hide it."""
    return Path(source).exists() and not Path(source).is_dir()


def obtain(source: str, split: str, data_home: Path | None, reading: dict[str, Any]) -> Dataset:
    """Read a file, or load a known set."""
    if is_file(source):
        if split != "all":
            raise ValueError("split= is for known sets; a file is read whole")
        return read(Path(source), **reading)
    path = Path(source)
    if _known(source, data_home) is None:
        if path.is_dir():
            raise ValueError(f"{source} is a folder, neither a data file nor a known set")
        if path.suffix != "" or len(path.parts) > 1:
            raise FileNotFoundError(f"there is no file {source}")
    return load(source, split=split, data_home=data_home, **reading)


def has_published_split(source: str, data_home: Path | None) -> bool:
    """Whether this is the name of a known set that comes with rows to train on and rows to test."""
    known = None if is_file(source) else _known(source, data_home)  # OpenML has the sets, and not their splits
    return known is not None and known.n_train is not None and known.where != "OpenML"


def rows_to_learn(
    source: str,
    split: str | None,
    test: Path | None,
    holdout: float | None,
    seed: int,
    data_home: Path | None,
    reading: dict[str, Any],
) -> tuple[Dataset, Dataset | None]:
    """Rows to learn from, and rows to measure on: a file, a share held out, or the published test rows; or None."""
    if test is not None and holdout is not None:
        raise ValueError("test= and holdout= exclude each other")
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise ValueError(f"holdout must be a share of the rows between 0 and 1, got {holdout:g}")
    published = split is None and holdout is None and has_published_split(source, data_home)
    dataset = obtain(source, "train" if published else split or "all", data_home, reading)
    if test is not None:
        if not test.exists():
            raise FileNotFoundError(f"test: there is no file {test}")
        n_features = None if isinstance(dataset.X, list) else int(dataset.X.shape[1])
        if n_features is not None and (reading.get("format") or detect_format(test)) == "libsvm":
            # The largest indices of the training file need not occur in the test file.
            reading = {**reading, "n_features": n_features, "n_labels": dataset.Y.shape[1]}
        tested = obtain(str(test), "all", data_home, reading)
        matched(tested, n_features, dataset.feature_names, dataset.label_names)  # before hours of training
        return dataset, tested
    if holdout is not None:
        from ..model_selection import MultilabelStratifiedShuffleSplit

        splitter = MultilabelStratifiedShuffleSplit(1, test_size=holdout, random_state=seed)
        ((kept, held),) = splitter.split(dataset.Y, dataset.Y)
        return _part(dataset, kept), _part(dataset, held)
    return dataset, obtain(source, "test", data_home, reading) if published else None


def _known(source: str, data_home: Path | None) -> DatasetInfo | None:
    return next((info for info in list_datasets(data_home) if info.name.lower() == source.lower()), None)


def _part(dataset: Dataset, rows: Any) -> Dataset:
    X = [dataset.X[i] for i in rows] if isinstance(dataset.X, list) else dataset.X[rows]
    return replace(dataset, X=X, Y=dataset.Y[rows], extra={})
