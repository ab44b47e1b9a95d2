"""What users pass as y, weights and features: one int8 indicator, or one error that names the argument."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning

from comargin import M3LClassifier
from comargin.core.indicator import check_indicator, dense_indicator
from comargin.core.validation import check_sample_weight, encode_targets
from comargin.data.generators import make_correlated, make_text_like
from comargin.decisions import GlobalCut, ThresholdClassifierCV
from comargin.metrics import hamming_loss, scorers
from comargin.model_selection import MultilabelStratifiedKFold

Y = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 1]])
TAGS = [["fruit", "red"], ["fruit"], ["red"], ["green", "fruit"]]
DTYPES = [bool, np.int8, np.uint8, np.int64, np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_every_form_of_an_indicator_becomes_one(form, dtype):
    encoded, targets, _ = encode_targets(form(Y.astype(dtype)))
    assert encoded.dtype == np.int8
    assert encoded.flags.c_contiguous
    assert_array_equal(encoded, Y)
    assert (targets.kind, targets.sparse) == ("indicator", sp.issparse(form(Y)))
    assert_array_equal(targets.classes, [0, 1, 2])
    assert_array_equal(check_indicator(form(Y.astype(dtype)), "Y").toarray(), Y)


def test_stored_zeros_and_duplicates_of_a_sparse_y():
    # Row 0: 1 at 0, a stored 0 at 1; row 1: 0 + 1 at 2 in two entries, unsorted.
    stored = sp.csr_array(([1, 0, 1, 0], [0, 1, 2, 2], [0, 2, 4]), shape=(2, 3))
    before = stored.data.copy()
    assert_array_equal(encode_targets(stored)[0], [[1, 0, 0], [0, 0, 1]])
    assert_array_equal(stored.data, before)
    twice = sp.csr_array(([1, 1], [0, 0], [0, 2]), shape=(1, 2))
    with pytest.raises(ValueError, match=r"y must be a label indicator .* got 2"):
        encode_targets(twice)


def test_sparse_y_is_narrowed_before_it_is_dense():
    tall = sp.csr_array((np.ones(2000, dtype=np.int64), (np.arange(2000), np.arange(2000) % 500)), shape=(2000, 500))
    tracemalloc.start()
    encode_targets(tall)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2000 * 500  # bytes: one int8 copy, where int64 would take eight


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (2 * Y, r"y must be a label indicator with entries in \{0, 1\}, got 2"),
        (sp.csr_array(-Y), r"y must be .*, got -1"),
        (sp.csr_array(np.where(Y, np.inf, 0.0)), "y must be .*, got inf"),
        (np.where(Y, "on", "off"), "y must be .* got dtype .*MultiLabelBinarizer"),
        (Y.astype(object), "y must be .* got dtype object"),
        (Y[:, :0], "y has no labels"),
        (sp.csr_array(Y[:, :0]), "y has no labels"),
    ],
)
def test_a_bad_indicator_is_named(y, message):
    with pytest.raises(ValueError, match=message):
        encode_targets(y)


def test_one_column_is_an_indicator_or_classes():
    assert encode_targets(Y[:, :1])[1].kind == "indicator"
    assert encode_targets(Y[:, :1].astype(float))[1].kind == "indicator"
    with pytest.warns(DataConversionWarning, match="column-vector"):
        encoded, targets, _ = encode_targets(1 + Y[:, :1])
    assert targets.kind == "binary"
    assert_array_equal(encoded, Y[:, :1])
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert encode_targets(np.array([["a"], ["b"], ["c"]]))[1].kind == "multiclass"


@pytest.mark.parametrize(
    "tags",
    [
        TAGS,
        [set(tags) for tags in TAGS],
        [tuple(tags) for tags in TAGS],
        np.array(TAGS, dtype=object),
        [["a", "b"], ["c", "d"], ["a", "c"], ["b", "d"]],
    ],
    ids=["lists", "sets", "tuples", "objects", "equal lengths"],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda X, y: M3LClassifier().fit(X, y),
        lambda X, y: ThresholdClassifierCV(M3LClassifier(), cv=2).fit(X, y),
        lambda X, y: list(MultilabelStratifiedKFold(2).split(X, y)),
        lambda X, y: GlobalCut().fit(X, y),
        lambda X, y: hamming_loss(y, y),
        lambda X, y: scorers["hamming_loss"](None, X, y),
    ],
    ids=["learner", "thresholds", "folds", "rule", "measure", "scorer"],
)
def test_label_sets_lead_to_the_binarizer(use, tags):
    with pytest.raises(ValueError, match=r"^(y|Y|Y_true) (must|has|holds).*MultiLabelBinarizer"):
        use(np.eye(4), tags)


def test_a_series_of_label_lists_leads_to_the_binarizer():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"y holds label sets such as \['fruit', 'red'\].*MultiLabelBinarizer"):
        M3LClassifier().fit(np.eye(4), pd.Series(TAGS))


def test_dense_indicator_is_a_copy():
    given = Y.astype(np.int8)
    dense_indicator(given, "Y")[0, 0] = 7
    assert given[0, 0] == 1


@pytest.mark.parametrize("weight", ["x", ["a"] * 4, [[1], [1, 2], [1], [1]], [None] * 3 + ["b"], {1: 2}])
def test_weights_that_are_no_numbers_are_named(weight):
    with pytest.raises(ValueError, match="sample_weight must hold numbers"):
        check_sample_weight(weight, 4)
    with pytest.raises(ValueError, match="sample_weight must hold numbers"):
        M3LClassifier().fit(np.eye(4), Y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must hold numbers"):
        hamming_loss(Y, Y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must hold numbers"):
        ThresholdClassifierCV(M3LClassifier(), cv=2).fit(np.eye(4), Y, sample_weight=weight)


def test_weights_that_are_numbers_are_taken():
    assert_array_equal(check_sample_weight(None, 3), [1, 1, 1])
    assert_array_equal(check_sample_weight(2, 3), [2, 2, 2])
    assert_array_equal(check_sample_weight([1, 0, 3], 3), [1, 0, 3])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("sign", [-1, 1])
def test_features_whose_squares_overflow_are_refused(form, sign):
    X = np.eye(4)
    X[2, 2] = sign * 1e155
    with pytest.raises(ValueError, match=r"X has values as large as 1e\+155.*scale the features"):
        M3LClassifier().fit(form(X), Y)
    X[2, 2] = sign * 1e100
    M3LClassifier(max_iter=20000).fit(form(X[:, :3]), Y)
    assert M3LClassifier().fit(sp.csr_array((4, 3)), Y).predict(X[:, :3]).shape == Y.shape  # no stored value


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (make_correlated, {"noise": -0.1}, "noise must be a finite number 0 or greater, got -0.1"),
        (make_correlated, {"noise": np.inf}, "noise must be a finite number"),
        (make_correlated, {"noise": True}, "noise must be a finite number"),
        (make_text_like, {"d": 10, "nnz": 6}, "nnz must be an int from 1 to 5, half of d=10, got 6: words"),
        (make_text_like, {"labels_per_row": 5}, r"in \[0, 4\], a fifth of L=20, got 5: the label freq"),
        (make_text_like, {"labels_per_row": np.inf}, "labels_per_row must be a finite number"),
        (make_text_like, {"labels_per_row": "3"}, "labels_per_row must be"),
    ],
)
def test_limits_of_the_generators_are_explained(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(**arguments)


def test_many_labels_a_row_keep_the_frequencies_below_one():
    data = make_text_like(n=3000, d=500, L=50, nnz=20, labels_per_row=10)
    assert data.extra["label_frequencies"].max() == 0.9
    assert data.extra["label_frequencies"].sum() == pytest.approx(10)
    assert data.Y.nnz / 3000 == pytest.approx(10, rel=0.02)
