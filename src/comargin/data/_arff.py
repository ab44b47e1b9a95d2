"""Mulan and MEKA data sets: ARFF files with labels named by an XML file or counted in the relation name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.files import AtomicFiles, is_gzip
from ..core.wording import counted
from ._arff_header import Header, may_be_stale, meka_labels, read_header, without_label_count, write_header
from ._arff_plan import DROPPED, Plan, make_plan
from ._arff_rows import CarefulParser, SparseBlock, as_slice, fast_dense, fast_sparse
from ._dataset import DataFormatError, Dataset, as_dense, entries_of
from ._labels_xml import find_labels_xml, labels_xml_of, only_xml_of_folder, read_labels_xml, write_labels_xml
from ._numbers import format_number
from ._source import TextSource
from .chunks import Part, Rows, Wanted, match_names
from .labels import label_columns


class ArffRows(Rows):
    """The rows of a Mulan or MEKA file."""

    def __init__(self, source: TextSource, wanted: Wanted, *, nominal: str, meka: bool) -> None:
        self.source, self.whole = source, wanted.to_learn
        header = read_header(source)
        has_xml = not source.is_stream and labels_xml_of(source.path) is not None
        # The name of a file has told its kind; that of a stream is not known before its header.
        is_meka = meka or (source.is_stream and meka_labels(header.relation) is not None)
        dropped = wanted.dropped(source.path, [attribute.name for attribute in header.attributes], "attribute")
        labels: list[int] = []
        if wanted.labels is not None:
            labels = _choose_labels(source, header, wanted.labels, is_meka)
            if dropped.issuperset(labels):
                raise ValueError(f"drop= leaves no label of {source.path}")
        elif not wanted.feature_names and (is_meka or has_xml):
            dropped.update(_choose_labels(source, header, True, is_meka))
        if wanted.feature_names:
            dropped.update(_unused(source, header, wanted.feature_names).difference(labels))
        self.plan = make_plan(
            source.path, header, labels, nominal=nominal, missing=wanted.missing,
            unlabelled=wanted.unlabelled, drop=dropped,
        )  # fmt: skip
        self.feature_names, self.label_names = self.plan.feature_names, self.plan.label_names
        self.order: np.ndarray | None = None  # of the columns of X, if it is not that of the file
        if not wanted.feature_names:
            wanted.check_count(source.path, len(self.feature_names))
        elif self.feature_names != wanted.feature_names:
            others = [column.attribute.name for column in self.plan.columns if column.role == DROPPED]
            found = match_names(source.path, [*self.feature_names, *others], wanted.feature_names)
            self.order = np.array(found, dtype=np.intp)

    def parts(self) -> Iterator[Part]:
        for X, labels in self._arrays():
            matched: Any = X if self.order is None else X[:, self.order]
            if sp.issparse(matched):
                matched.sort_indices()
            yield Part(matched, labels)

    def _arrays(self) -> Iterator[tuple[Any, Any]]:
        """Features and labels; the limit of their size is for all rows together if these are for learning."""
        source, plan = self.source, self.plan
        careful = CarefulParser(source, plan)
        splitter = _SparseSplitter(source, plan)
        n_rows = 0
        is_sparse: bool | None = None
        for first, block in source.blocks():
            if not block.strip():
                continue
            if is_sparse is None:
                row = next(careful.lines(first, block), None)
                if row is None:
                    continue
                is_sparse = row[1].startswith("{")
            if is_sparse:
                splitter.n_added = splitter.n_added if self.whole else 0
                yield from splitter.split(fast_sparse(block, plan) or careful.sparse(first, block))
            else:
                values = fast_dense(block, plan)
                values = careful.dense(first, block) if values is None else values
                n_rows = len(values) + (n_rows if self.whole else 0)
                _check_onehot_size(source, plan, n_rows)
                yield split_dense(values, plan)
        if is_sparse is None:
            raise source.fail("has no rows after @data", source.line)


def _unused(source: TextSource, header: Header, feature_names: Sequence[str]) -> set[int]:
    """Attributes that are no features by these names, their own or ``attribute=value``."""
    names = set(feature_names)
    unused: set[int] = set()
    for j, attribute in enumerate(header.attributes):
        if attribute.name not in names and names.isdisjoint(f"{attribute.name}={value}" for value in attribute.values):
            unused.add(j)
        elif attribute.kind in ("string", "date"):
            reason = f"attribute {attribute.name!r} is a {attribute.kind}, where a number is expected"
            raise source.fail(reason, attribute.line)
    return unused


def _choose_labels(source: TextSource, header: Header, labels: Any, meka: bool) -> list[int]:
    """Attributes that are labels, in the order asked for; True: as the file says."""
    path, origin = source.path, ""
    if labels is True and meka:
        labels, origin = meka_labels(header.relation), "-C in the relation name"
        if labels is None:
            raise DataFormatError(path, "the relation name does not count the labels (-C n); say labels=")
        _check_count_is_sure(source, header, labels)
    elif labels is True or isinstance(labels, (str, Path)):
        if labels is True and source.is_stream:
            raise source.fail("which attributes are labels? A stream has no XML file beside it; say labels=")
        xml = find_labels_xml(path) if labels is True else Path(labels)
        labels, origin = read_labels_xml(xml), f"listed in {xml.name}"
    names = [attribute.name for attribute in header.attributes]
    if not isinstance(labels, int):
        # Some lists keep the backslashes of the ARFF file (delicious: TAG_m\'usica).
        there = set(names)
        bare = {name: name.replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\") for name in labels}
        labels = [name if name in there else bare[name] for name in labels]
    return label_columns(path, names, labels, noun="attribute", origin=origin)


def _check_count_is_sure(source: TextSource, header: Header, count: int) -> None:
    """Refuse MEKA's count of labels where something else says that others are the labels."""
    path, names = source.path, [attribute.name for attribute in header.attributes]
    counted_names = {names[j] for j in label_columns(path, names, count, origin="-C in the relation name")}
    ends = f"the {'first' if count > 0 else 'last'} {abs(count)} attributes (-C {count} in the relation name)"
    xml = None if source.is_stream else only_xml_of_folder(path)
    if xml is not None:
        listed = set(read_labels_xml(xml))
        if listed != counted_names and listed.issubset(names):
            reason = f"which attributes are labels: {ends}, or those that {xml.name} lists? Say labels={count} or "
            raise DataFormatError(path, f"{reason}labels={str(xml)!r}")
    if may_be_stale(header.relation):
        reason = f"{ends} may be no labels: by the same name attributes were moved or removed after they were counted"
        cure = f"put the XML list of labels beside the file, or say labels= ({count} if they are)"
        raise DataFormatError(path, f"{reason}; {cure}")


def _check_onehot_size(source: TextSource, plan: Plan, n_rows: int) -> None:
    """Refuse too large arrays before allocating them: a cell of a few bytes may mean thousands of columns."""
    columns = [plan.columns[j] for j in plan.feature_order]
    widest = max(columns, key=lambda column: column.width, default=None)
    if widest is not None and widest.onehot:
        width = sum(column.width for column in columns)
        source.check_array_size(
            8 * n_rows * width,
            f"nominal values become columns, {width} in all, {widest.width} of them for attribute "
            f"{widest.attribute.name[:80]!r} (leave it out with drop=, or write sparse rows)",
        )


def split_dense(values: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Features (one-hot ones expanded) and labels from one column per attribute."""
    columns = [plan.columns[j] for j in plan.feature_order]
    X = values[:, as_slice(plan.feature_order)]
    if any(column.onehot for column in columns):
        X = np.hstack(
            [_onehot(X[:, [j]], column.width) if column.onehot else X[:, [j]] for j, column in enumerate(columns)]
        )
    return np.ascontiguousarray(X), values[:, as_slice(plan.label_order)]


def _onehot(codes: np.ndarray, width: int) -> np.ndarray:
    """One column per code, of a column of codes; a missing code is NaN in all of them."""
    return np.where(np.isnan(codes), np.nan, codes == np.arange(width))


_ENTRY_BYTES = 12  # of a CSR array
_ADDED_AT_ONCE = 1 << 20


class _SparseSplitter:
    """Turns blocks of sparse rows into CSR X and Y; attributes left out take their omitted value."""

    def __init__(self, source: TextSource, plan: Plan) -> None:
        self.source, self.plan = source, plan
        self.n_added = 0  # entries that no row of the file writes
        self.widths = np.array([column.width for column in plan.columns], dtype=np.int64)
        self.onehot = np.array([column.onehot for column in plan.columns])
        self.omitted = np.array([column.omitted for column in plan.columns])
        # Attributes that have a meaning when left out: a one-hot one then has 1 in its first column.
        self.special = np.flatnonzero((self.omitted != 0) | self.onehot)
        # First column in X and in Y of every attribute, -1 for none.
        self.feature_column = np.full(plan.n_attributes, -1, dtype=np.int32)
        widths = self.widths[plan.feature_order]
        self.feature_column[plan.feature_order] = np.cumsum(widths) - widths
        self.n_features = int(widths.sum())
        self.label_column = np.full(plan.n_attributes, -1, dtype=np.int32)
        self.label_column[plan.label_order] = np.arange(plan.label_order.size)

    def split(self, rows: SparseBlock) -> Iterator[tuple[sp.csr_array, sp.csr_array]]:
        """Yield X and Y of a block, so many rows at a time that the entries added to them stay few."""
        step = max(1, rows.counts.size)
        if self.special.size:
            self._check_size(rows)
            step = max(1, _ADDED_AT_ONCE // self.special.size)
        ends = np.concatenate([[0], np.cumsum(rows.counts)])
        for start in range(0, rows.counts.size, step):
            counts = rows.counts[start : start + step]
            entries = slice(ends[start], ends[start + counts.size])
            yield self._split(SparseBlock(counts, rows.attributes[entries], rows.values[entries]))

    def _check_size(self, rows: SparseBlock) -> None:
        """Refuse too large arrays before allocating them: a row of two bytes may mean thousands of values."""
        missing = rows.attributes[self.onehot[rows.attributes] & np.isnan(rows.values)]
        self.n_added += rows.counts.size * self.special.size + int(self.widths[missing].sum())
        # The example in the message is the attribute that adds most.
        first = missing[np.argmax(self.widths[missing])] if missing.size else self.special[0]
        name = self.plan.columns[first].attribute.name[:80]
        self.source.check_array_size(
            _ENTRY_BYTES * self.n_added,
            "sparse rows that leave out values that are not 0, or miss nominal ones "
            f"({counted(self.special.size, 'attribute')}, e.g. {name!r}; drop= leaves them out)",
        )

    def _split(self, rows: SparseBlock) -> tuple[sp.csr_array, sp.csr_array]:
        n_rows = rows.counts.size
        row = np.repeat(np.arange(n_rows, dtype=np.int32), rows.counts)
        attribute, value = rows.attributes, rows.values
        if self.special.size:
            absent_row, absent = self._left_out(n_rows, row, attribute)
            row, attribute = np.concatenate([row, absent_row]), np.concatenate([attribute, absent])
            value = np.concatenate([value, self.omitted[absent]])
        label = self.label_column[attribute]
        chosen = np.flatnonzero(label >= 0)
        labels = _csr(value[chosen], row[chosen], label[chosen], (n_rows, self.plan.label_order.size))
        column = self.feature_column[attribute]
        chosen = np.flatnonzero(column >= 0)
        row, attribute, column, value = row[chosen], attribute[chosen], column[chosen], value[chosen]
        if self.special.size:
            row, column, value = self._expand_onehot(row, attribute, column, value)
        return _csr(value, row, column, (n_rows, self.n_features)), labels

    def _left_out(self, n_rows: int, row: np.ndarray, attribute: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and attribute of the special entries that the file leaves out."""
        position = np.full(self.plan.n_attributes, -1)
        position[self.special] = np.arange(self.special.size)
        at = position[attribute]
        left_out = np.ones((n_rows, self.special.size), dtype=bool)
        left_out[row[at >= 0], at[at >= 0]] = False
        absent_row, absent = np.nonzero(left_out)
        return absent_row, self.special[absent]

    def _expand_onehot(
        self, row: np.ndarray, attribute: np.ndarray, column: np.ndarray, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One entry 1 in the column of the value; a missing value is NaN in all columns of its attribute."""
        hot, is_missing = self.onehot[attribute], np.isnan(value)
        known = hot & ~is_missing
        column = column + np.where(known, value, 0.0).astype(column.dtype)
        value = np.where(known, 1.0, value)
        missing = np.flatnonzero(hot & is_missing)
        widths = self.widths[attribute[missing]]
        # Repeat an entry once per column of its attribute; its first column is there already.
        start = np.repeat(np.cumsum(widths) - widths, widths)
        shift = np.arange(widths.sum()) - start
        more, shift = np.repeat(missing, widths)[shift > 0], shift[shift > 0]
        row, column = np.concatenate([row, row[more]]), np.concatenate([column, column[more] + shift])
        return row, column, np.concatenate([value, value[more]])


def _csr(data: np.ndarray, row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    matrix = sp.csr_array(sp.coo_array((data, (row, column)), shape=shape))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def labels_xml_beside(path: Path) -> Path:
    """Where the XML of an ARFF file is written: same stem, never compressed."""
    return (path.with_suffix("") if is_gzip(path) else path).with_suffix(".xml")


def write_arff(dataset: Dataset, path: Path, files: AtomicFiles, *, meka: bool) -> None:
    """Write a Mulan (ARFF and XML) or MEKA (ARFF, labels first) data set, sparse rows when X is sparse."""
    clash = set(dataset.feature_names) & set(dataset.label_names)
    if clash:
        raise ValueError(f"dataset: {sorted(clash)[0]!r} names a feature and a label, which ARFF cannot hold")
    features = [(name, "numeric") for name in dataset.feature_names]
    labels = [(name, "{0,1}") for name in dataset.label_names]
    # A reader would take "-C n" in a name for MEKA's count of labels.
    name = without_label_count(dataset.name or path.stem)
    file = files.open(path)
    if meka:
        write_header(file, f"{name}: -C {len(labels)}", labels + features)
    else:
        write_labels_xml(dataset.label_names, files.open(labels_xml_beside(path)))
        write_header(file, name, features + labels)
    arrays = (dataset.Y, dataset.X) if meka else (dataset.X, dataset.Y)
    if sp.issparse(dataset.X):
        for row in entries_of(sp.hstack(arrays, format="csr")):
            file.write("{" + ",".join(f"{j} {format_number(value, '?')}" for j, value in row) + "}\n")
        return
    for parts in zip(*map(as_dense, arrays), strict=True):
        file.write(",".join(format_number(value, "?") for part in parts for value in part.tolist()) + "\n")
