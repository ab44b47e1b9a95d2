"""Data sets by name: built in, in the data folder, or at last from OpenML, through scikit-learn's downloader.

OpenML has the ten sets of Probst et al. (Multilabel classification with R package mlr, R Journal 9, 2017), dense,
with the labels as targets that are ``TRUE`` or ``FALSE``.
"""

import difflib
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.files import plain_stem, plain_suffix
from ._arff import split_dense
from ._arff_header import Attribute, Header
from ._arff_plan import make_plan
from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from .chunks import stacked
from .format_table import format_of_suffix
from .formats import read
from .labels import label_of_cell, settled

_SPLITS = ("all", "train", "test")
# Words in the names of files that are a part of a set; validation rows belong to "all" only.
_SIDES = {"train": {"train"}, "valid": {"valid", "validate", "validation", "dev"}, "test": {"test"}}
_NOT_DATA = re.compile(r"\.|readme|licen[cs]e|citation", re.IGNORECASE)


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


def _fetch(name: str, openml_id: int, data_home: Path, drop: Sequence[str] = ()) -> Dataset:
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


@dataclass(frozen=True)
class DatasetInfo:
    """Entry of the catalogue of data sets.

    Attributes
    ----------
    name : str
        The name ``load`` takes.
    n_samples, n_features, n_labels : int or None
        Shape of the whole set; None where it is not known before loading.
    labels_per_row : float or None
        Mean number of labels of a row.
    n_train, n_test : int or None
        Rows of the published split; None when there is none.
    openml_id : int or None
        Number of the set on OpenML, None when it is not there.
    where : str or None
        ``built in``, a folder, ``OpenML`` (not in the data folder, will be fetched), or None: not available.
    signatures_only : bool
        True when there are class signatures but no features: see ``load_signatures``.
    """

    name: str
    n_samples: int | None = None
    n_features: int | None = None
    n_labels: int | None = None
    labels_per_row: float | None = None
    n_train: int | None = None
    n_test: int | None = None
    openml_id: int | None = None
    where: str | None = None
    signatures_only: bool = False


# Shapes as the published files have them (genbase without its nominal protein identifier).
_KNOWN = {
    info.name: info
    for info in (
        DatasetInfo("awa", None, None, 85, signatures_only=True),
        DatasetInfo("bibtex", 7395, 1836, 159, 2.402, 4880, 2515),
        DatasetInfo("birds", openml_id=40588),
        DatasetInfo("cal500", 502, 68, 174, 26.044),
        DatasetInfo("corel5k", 5000, 499, 374, 3.522, 4500, 500),
        DatasetInfo("delicious", 16105, 500, 983, 19.020, 12920, 3185),
        DatasetInfo("digits", 1797, 64, 7, 4.890, 1347, 450, where="built in"),
        DatasetInfo("emotions", 593, 72, 6, 1.868, 391, 202, openml_id=40589),
        DatasetInfo("enron", 1702, 1001, 53, 3.378, 1123, 579, openml_id=40590),
        DatasetInfo("flags", 194, 19, 7, 3.392, 129, 65),
        DatasetInfo("genbase", 662, 1185, 27, 1.252, 463, 199, openml_id=40591),
        DatasetInfo("image", openml_id=40592),
        DatasetInfo("langlog", openml_id=40593),
        DatasetInfo("mediamill_small", 2500, 120, 101, 4.353),
        DatasetInfo("plant", 978, 440, 12, 1.079),
        DatasetInfo("rcv1subset1", 6000, 500, 101, 2.880),
        DatasetInfo("reuters", openml_id=40594),
        DatasetInfo("scene", 2407, 294, 6, 1.074, 1211, 1196, openml_id=40595),
        DatasetInfo("slashdot", openml_id=40596),
        DatasetInfo("tmc2007-500", 28596, 500, 22, 2.158, 21519, 7077),
        DatasetInfo("yeast", 2417, 103, 14, 4.237, 1500, 917, openml_id=40597),
    )
}
# Attributes that only identify a row.
_DROP = {"genbase": ("protein",)}


@dataclass(frozen=True)
class ClassSignatures:
    """Which labels (attributes) each class has, and which classes are for training and which for testing.

    Attributes
    ----------
    class_names, label_names : tuple of str
        Names of the classes and of the labels.
    signatures : ndarray of shape (n_classes, n_labels)
        Indicator with entries in {0, 1}, dtype int32.
    train_classes, test_classes : ndarray of int
        Indices of the classes of either side.
    name : str
        Name of the set.
    """

    class_names: tuple[str, ...]
    label_names: tuple[str, ...]
    signatures: np.ndarray
    train_classes: np.ndarray
    test_classes: np.ndarray
    name: str


def load(name: str, split: str = "all", data_home: str | os.PathLike[str] | None = None, **reading: Any) -> Dataset:
    """Load a data set by name.

    ``digits`` is built in. Other sets are read from the folder ``name`` of the data folder: an ARFF file with its
    XML (or any one file that ``read`` understands) is the whole set, files with ``train`` and ``test`` in their
    names are the published split. A set that is not there is fetched from OpenML, if OpenML has it.

    Parameters
    ----------
    name : str
        One of ``list_datasets()``, or the name of any folder with a data set in the data folder.
    split : {"all", "train", "test"}, default="all"
        The whole set, or a side of its published split. ``digits``, in the order of scikit-learn: the first 1347
        rows (three quarters) are for training and the last 450 for testing.
    data_home : path or None, default=None
        The data folder; None means ``$COMARGIN_DATA`` or, without that, ``~/.cache/comargin``.
    **reading : Any
        Further arguments of `read`, for the files of the folder: ``format``, ``missing``, ...

    Returns
    -------
    dataset : Dataset
        ``X`` dense or CSR as the file is. ``digits`` has the seven segments a..g of a digit display as labels, and
        in ``extra`` the digit ``y`` of every row, the ``signatures`` (10, 7) of the digits and their ``class_names``.

    Raises
    ------
    DatasetUnavailableError
        The set is known but neither in the data folder nor to be fetched. (A subclass of OSError.)
    DataFormatError
        A file of the set cannot be read.
    ValueError
        An unknown name, or a split the set does not have.

    Examples
    --------
    >>> digits = load("digits", split="train")
    >>> digits.X.shape, digits.label_names, digits.extra["signatures"][7].tolist()
    ((1347, 64), ('a', 'b', 'c', 'd', 'e', 'f', 'g'), [1, 1, 1, 0, 0, 0, 0])
    """
    if split not in _SPLITS:
        raise ValueError(f"split must be one of {', '.join(_SPLITS)}, got {split!r}")
    home = find_data_home(data_home)
    key, folder = _resolve(name, home)
    files = _find_files(folder) if folder is not None and key != "digits" else {}
    if reading and not files:
        options = ", ".join(f"{option}=" for option in reading)
        raise ValueError(f"{options} only says how to read a file, and {key} is none here")
    if key == "digits":
        return _digits(split)
    info = _KNOWN.get(key)
    if info is not None and info.signatures_only:
        raise ValueError(f"{key} has class signatures and no features: use load_signatures({key!r})")
    if files:
        return _read_split(key, split, files, str(folder), reading)
    if info is None:
        raise ValueError(f"name {key!r}: {folder} does not have one data file (or one file per side of a split)")
    if split != "all" and info.n_train is None:
        raise ValueError(f"split={split!r}: {key} has no published train/test split, only split='all'")
    if info.openml_id is None:
        raise DatasetUnavailableError(key, home)
    if split != "all":
        raise DatasetUnavailableError(key, home, "OpenML has it, but without a train/test split")
    return _fetch(key, info.openml_id, home, drop=_DROP.get(key, ()))


def load_signatures(name: str = "awa", data_home: str | os.PathLike[str] | None = None) -> ClassSignatures:
    """Load class signatures for zero-shot learning, here the 50 classes and 85 attributes of Animals with Attributes.

    Parameters
    ----------
    name : str, default="awa"
        Folder with ``classes.txt``, ``predicates.txt``, ``predicate-matrix-binary.txt``,
        ``trainclasses.txt`` and ``testclasses.txt``, as Animals with Attributes is published.
    data_home : path or None, default=None
        The data folder; None means ``$COMARGIN_DATA`` or, without that, ``~/.cache/comargin``.

    Examples
    --------
    >>> from comargin.graphs import correlation_from_classes
    >>> awa = load_signatures("awa")  # doctest: +SKIP
    >>> R = correlation_from_classes(awa.signatures[awa.test_classes])  # doctest: +SKIP
    """
    home = find_data_home(data_home)
    key, folder = _resolve(name, home)
    if folder is None:
        raise DatasetUnavailableError(key, home)
    class_names = _numbered_names(folder / "classes.txt")
    label_names = _numbered_names(folder / "predicates.txt")
    matrix = folder / "predicate-matrix-binary.txt"
    rows = [line.split() for line in _lines(matrix)]
    if len(rows) != len(class_names):
        raise DataFormatError(matrix, f"has {len(rows)} rows for {len(class_names)} classes")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(label_names) or not set(row) <= {"0", "1"}:
            raise DataFormatError(matrix, f"expected {len(label_names)} entries, each 0 or 1", number)
    train, test = (_class_positions(folder / f"{side}classes.txt", class_names) for side in ("train", "test"))
    return ClassSignatures(class_names, label_names, np.array(rows, dtype=LABEL_DTYPE), train, test, key)


def list_datasets(data_home: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """List the data sets that are known, and those that are in the data folder.

    Parameters
    ----------
    data_home : path or None, default=None
        The data folder; None means ``$COMARGIN_DATA`` or, without that, ``~/.cache/comargin``.

    Returns
    -------
    datasets : list of DatasetInfo
        By name. ``where`` says from where each can be loaded, if at all; nothing is read or fetched.

    Examples
    --------
    >>> [info.where for info in list_datasets() if info.name == "digits"]
    ['built in']
    """
    home = find_data_home(data_home)
    found = dict(_KNOWN)
    for folder in _folders(home):
        known = found.get(folder.name)
        if known is None and _find_files(folder):
            found[folder.name] = DatasetInfo(folder.name, where=str(folder))
        elif known is not None and known.where is None and (known.signatures_only or _find_files(folder)):
            found[folder.name] = replace(known, where=str(folder))
    return [
        replace(info, where="OpenML") if info.where is None and info.openml_id is not None else info
        for _, info in sorted(found.items())
    ]


def find_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the data folder: the argument, else ``$COMARGIN_DATA``, else ``~/.cache/comargin``."""
    default = os.environ.get("COMARGIN_DATA") or "~/.cache/comargin"
    return Path(default if data_home is None else data_home).expanduser()


def _folders(home: Path) -> list[Path]:
    return sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []


def _resolve(name: str, home: Path) -> tuple[str, Path | None]:
    """Catalogue key and folder of a name; the case does not matter for known sets."""
    if not isinstance(name, str):
        raise ValueError(f"name must be a string, got {name!r}")
    folders = {folder.name: folder for folder in _folders(home)}
    key = name.lower() if name.lower() in _KNOWN else name
    if key in _KNOWN or key in folders:
        return key, folders.get(key)
    names = sorted({*_KNOWN, *folders})
    near = difflib.get_close_matches(name.lower(), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}"
    raise ValueError(f"name {name!r} is neither a known data set nor a folder of {home}: {hint}")


def _find_files(folder: Path) -> dict[str, Path]:
    """Files of a set by side of the split; empty when the folder has none, or several for one side."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not _NOT_DATA.match(path.name))
    files = [path for path in files if format_of_suffix(path)]
    files = [path for path in files if plain_suffix(path) == ".arff"] or files  # ARFF comes first
    sides: dict[str, list[Path]] = {"all": [], **{side: [] for side in _SIDES}}
    for path in files:
        words = re.split(r"[-_.]", plain_stem(path).lower())
        found = (side for side, names in _SIDES.items() if not names.isdisjoint(words))
        sides[next(found, "all")].append(path)
    named = [path for path in sides["all"] if plain_stem(path).lower() == folder.name.lower()]
    sides["all"] = named or sides["all"]
    if any(len(paths) > 1 for paths in sides.values()):
        return {}
    return {side: paths[0] for side, paths in sides.items() if paths}


def _read_split(name: str, split: str, files: dict[str, Path], where: str, reading: dict[str, Any]) -> Dataset:
    options: dict[str, Any] = {"name": name, "drop": _DROP.get(name, ()), **reading}
    if split in files:
        return read(files[split], **options)
    if split != "all":
        raise ValueError(f"split={split!r}: {name} has no published train/test split in {where}, only split='all'")
    if not {"train", "test"} <= set(files):
        raise ValueError(f"split='all': {name} has only its {next(iter(files))} part in {where}")
    first, *others = (read(path, **options) for path in files.values())
    for path, other in zip(list(files.values())[1:], others, strict=True):
        if first.feature_names != other.feature_names or first.label_names != other.label_names:
            raise DataFormatError(path, f"does not have the columns of {files['train'].name}")
    return replace(first, X=stacked([first.X, *(d.X for d in others)]), Y=stacked([first.Y, *(d.Y for d in others)]))


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else "is not text"
        raise DataFormatError(path, reason) from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _numbered_names(path: Path) -> tuple[str, ...]:
    """Names of a file with lines ``1 antelope``."""
    names = []
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[0] != str(number):
            raise DataFormatError(path, f"expected '{number} name', got {line!r}", number)
        names.append(fields[1])
    if len(set(names)) != len(names) or not names:
        raise DataFormatError(path, "has no names" if not names else "has a name twice")
    return tuple(names)


def _class_positions(path: Path, class_names: tuple[str, ...]) -> np.ndarray:
    """Positions of the classes that a file lists."""
    position = {name: i for i, name in enumerate(class_names)}
    names = _lines(path)
    for number, name in enumerate(names, start=1):
        if name not in position:
            raise DataFormatError(path, f"{name!r} is not in classes.txt", number)
    return np.array([position[name] for name in names], dtype=np.intp)


# Segments of a digit display: a top, b and c right, d bottom, e and f left (from below), g middle.
_SEGMENTS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
_DIGITS_TRAIN = 1347


def _digits(split: str) -> Dataset:
    from sklearn.datasets import load_digits

    raw = load_digits()
    signatures = np.array([[segment in digit for segment in "abcdefg"] for digit in _SEGMENTS], LABEL_DTYPE)
    rows = {"all": slice(None), "train": slice(_DIGITS_TRAIN), "test": slice(_DIGITS_TRAIN, None)}[split]
    y = raw.target[rows].copy()
    return Dataset(
        np.ascontiguousarray(raw.data[rows], dtype=np.float64),
        signatures[y],
        tuple(raw.feature_names),
        tuple("abcdefg"),
        "digits",
        {"y": y, "signatures": signatures, "class_names": tuple(str(digit) for digit in range(10))},
    )
