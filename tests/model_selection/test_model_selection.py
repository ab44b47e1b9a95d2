"""Stratified splits: partition, sizes, balance, determinism, and scikit-learn's behaviour."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold, cross_val_score

from comargin.metrics import scorers
from comargin.model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit, label_imbalance


def folds_of(splitter, Y):
    return [test for _, test in splitter.split(Y, Y)]


def uniform(rng, n, L):
    return (rng.random((n, L)) < 0.05).astype(np.int8)


def skewed(rng, n, L):
    return (rng.random((n, L)) < 0.5 / np.arange(1, L + 1)).astype(np.int8)


def crowded(rng, n, L):
    return (rng.random((n, L)) < rng.uniform(0.05, 0.6, L)).astype(np.int8)


def topics(rng, n, L):
    """Correlated labels: each row mixes two of a few topics; rows are sorted by topic."""
    profile = rng.random((12, L)) ** 10
    topic = np.sort(rng.integers(12, size=(n, 2)), axis=0)
    return (rng.random((n, L)) < profile[topic].max(axis=1)).astype(np.int8)


indicators = st.tuples(st.integers(2, 25), st.integers(1, 6)).flatmap(
    lambda shape: hnp.arrays(np.int8, shape, elements=st.integers(0, 1))
)


@settings(max_examples=150, deadline=None)
@given(indicators, st.data())
def test_kfold_is_a_partition_with_sizes_of_kfold(Y, data):
    n_splits = data.draw(st.integers(2, len(Y)))
    shuffle = data.draw(st.booleans())
    splitter = MultilabelStratifiedKFold(n_splits, shuffle=shuffle, random_state=0 if shuffle else None)
    splits = list(splitter.split(Y, Y))
    expected = [len(test) for _, test in KFold(n_splits).split(Y)]
    assert [len(test) for _, test in splits] == expected
    assert np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(len(Y)))
    for train, test in splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(Y)))
        assert (np.diff(test) > 0).all()
        assert (np.diff(train) > 0).all()


@settings(max_examples=150, deadline=None)
@given(indicators, st.data())
def test_shuffle_split_has_the_sizes_of_shuffle_split(Y, data):
    n = len(Y)
    test_size = data.draw(st.one_of(st.none(), st.integers(1, n - 1)))
    train_size = data.draw(st.one_of(st.none(), st.integers(1, n - (test_size or 1))))
    if test_size is None and train_size is None and n < 2:
        return
    options = {"n_splits": 2, "test_size": test_size, "train_size": train_size, "random_state": 1}
    expected = [(len(a), len(b)) for a, b in ShuffleSplit(**options).split(Y)]
    splits = list(MultilabelStratifiedShuffleSplit(**options).split(Y, Y))
    assert [(len(a), len(b)) for a, b in splits] == expected
    for train, test in splits:
        rows = np.concatenate([train, test])
        assert len(np.unique(rows)) == len(rows)
        assert rows.min() >= 0
        assert rows.max() < n


@settings(max_examples=60, deadline=None)
@given(indicators, st.sampled_from([sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]))
def test_sparse_equals_dense(Y, make):
    for splitter in (
        MultilabelStratifiedKFold(2),
        MultilabelStratifiedKFold(2, shuffle=True, random_state=3),
        MultilabelStratifiedShuffleSplit(2, test_size=0.5, random_state=3),
    ):
        dense, thin = list(splitter.split(Y, Y)), list(splitter.split(Y, make(Y)))
        boolean = list(splitter.split(Y, Y.astype(bool)))
        for (a, b), (c, d), (e, f) in zip(dense, thin, boolean, strict=True):
            assert np.array_equal(a, c)
            assert np.array_equal(b, d)
            assert np.array_equal(a, e)
            assert np.array_equal(b, f)


@pytest.mark.parametrize(
    ("make", "n", "L", "k", "factor"),
    [
        (uniform, 3000, 100, 5, 8),
        (skewed, 2000, 200, 5, 3),
        (skewed, 5003, 50, 10, 6),
        (crowded, 1000, 20, 10, 4),
        (topics, 4000, 50, 10, 8),
    ],
)
def test_better_balance_than_kfold(rng, make, n, L, k, factor):
    Y = make(rng, n, L)
    plain = label_imbalance(Y, folds_of(KFold(k, shuffle=True, random_state=0), Y))
    for splitter in (
        MultilabelStratifiedKFold(k),
        MultilabelStratifiedKFold(k, shuffle=True, random_state=0),
    ):
        ours = label_imbalance(Y, folds_of(splitter, Y))
        assert plain > factor * ours, (plain, ours)


@pytest.mark.parametrize("make", [uniform, skewed, topics])
def test_nearly_every_label_is_within_one_row_of_its_share(rng, make):
    Y = make(rng, 2000, 40)
    counts = np.array([Y[test].sum(axis=0) for test in folds_of(MultilabelStratifiedKFold(5), Y)])
    share = Y.sum(axis=0) / 5
    assert (np.abs(counts - share) < 1).mean() > 0.98
    assert np.abs(counts - share).max() < 2


@pytest.mark.parametrize("make", [uniform, skewed, crowded, topics])
def test_shuffle_split_balances_both_parts(rng, make):
    Y = make(rng, 1500, 30)
    ours = MultilabelStratifiedShuffleSplit(4, test_size=0.2, train_size=0.5, random_state=0)
    plain = ShuffleSplit(4, test_size=0.2, train_size=0.5, random_state=0)
    for part in (0, 1):
        better = label_imbalance(Y, [split[part] for split in ours.split(Y, Y)])
        worse = label_imbalance(Y, [split[part] for split in plain.split(Y)])
        assert worse > 4 * better, (part, worse, better)


def test_label_with_as_many_rows_as_folds_is_in_every_fold(rng):
    k = 5
    Y = np.zeros((400, 30), dtype=int)
    for label, rows in enumerate(rng.permutation(400)[: 29 * k].reshape(29, k)):
        Y[rows, label] = 1
    Y[:, 29] = rng.random(400) < 0.6
    for splitter in (
        MultilabelStratifiedKFold(k),
        MultilabelStratifiedKFold(k, shuffle=True, random_state=2),
    ):
        for test in folds_of(splitter, Y):
            assert (Y[test, :29].sum(axis=0) == 1).all()


def test_rare_labels_that_share_rows_are_in_every_fold_too(rng):
    k, right = 5, []
    for _ in range(10):
        Y = np.zeros((400, 30), dtype=int)
        for label in range(29):
            Y[rng.choice(400, k, replace=False), label] = 1
        Y[:, 29] = rng.random(400) < 0.6
        counts = np.array([Y[test, :29].sum(axis=0) for test in folds_of(MultilabelStratifiedKFold(k), Y)])
        right.append((counts == 1).all(axis=0).mean())
    # Random folds put such a label into every fold in 5! / 5**5 = 4 % of the cases.
    assert np.mean(right) > 0.98


def test_rare_labels_are_spread_and_do_not_warn():
    Y = np.zeros((20, 2), dtype=int)
    Y[:3, 0], Y[4, 1] = 1, 1
    counts = np.array([Y[test].sum(axis=0) for test in folds_of(MultilabelStratifiedKFold(5), Y)])
    assert sorted(counts[:, 0]) == [0, 0, 1, 1, 1]
    assert sorted(counts[:, 1]) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("value", [0, 1])
def test_rows_without_or_with_all_labels(value):
    Y = np.full((23, 4), value)
    folds = folds_of(MultilabelStratifiedKFold(4), Y)
    assert [len(fold) for fold in folds] == [6, 6, 6, 5]
    assert label_imbalance(Y, folds) == 0.0
    # Neighbouring rows go to different folds.
    assert max(np.diff(fold).min() for fold in folds) > 1


def test_seed_and_shuffle(rng):
    Y = skewed(rng, 300, 20)

    def folds(**options):
        return np.concatenate(folds_of(MultilabelStratifiedKFold(3, **options), Y))

    assert np.array_equal(folds(), folds())
    assert np.array_equal(folds(shuffle=True, random_state=1), folds(shuffle=True, random_state=1))
    assert not np.array_equal(folds(shuffle=True, random_state=1), folds(shuffle=True, random_state=2))
    assert not np.array_equal(folds(shuffle=True, random_state=1), folds())

    splitter = MultilabelStratifiedShuffleSplit(3, random_state=5)
    first, again = list(splitter.split(Y, Y)), list(splitter.split(Y, Y))
    for (a, b), (c, d) in zip(first, again, strict=True):
        assert np.array_equal(a, c)
        assert np.array_equal(b, d)
    assert not np.array_equal(first[0][1], first[1][1])
    state = np.random.RandomState(5)
    shared = MultilabelStratifiedKFold(3, shuffle=True, random_state=state)
    assert not np.array_equal(
        np.concatenate(folds_of(shared, Y)),
        np.concatenate(folds_of(shared, Y)),
    )


def test_global_random_state_is_left_alone(rng):
    Y = skewed(rng, 60, 5)
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    folds_of(MultilabelStratifiedKFold(3), Y)
    folds_of(MultilabelStratifiedKFold(3, shuffle=True, random_state=0), Y)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("y", [np.repeat(["a", "b", "c"], [40, 30, 7]), np.repeat([0, 1], [50, 13])])
def test_one_class_per_row_is_stratified_by_class(y):
    ours = folds_of(MultilabelStratifiedKFold(4), y)
    theirs = [test for _, test in StratifiedKFold(4).split(y, y)]
    for a, b in zip(ours, theirs, strict=True):
        for value in np.unique(y):
            assert abs((y[a] == value).sum() - (y[b] == value).sum()) <= 1
    assert folds_of(MultilabelStratifiedKFold(4), list(y))[0].tolist() == ours[0].tolist()


def test_repr_and_clone():
    kfold = MultilabelStratifiedKFold(4, shuffle=True, random_state=1)
    assert repr(kfold) == "MultilabelStratifiedKFold(n_splits=4, random_state=1, shuffle=True)"
    assert kfold.get_n_splits() == 4
    split = MultilabelStratifiedShuffleSplit(3, test_size=0.2)
    assert " ".join(repr(split).split()) == (
        "MultilabelStratifiedShuffleSplit(n_splits=3, random_state=None, test_size=0.2, train_size=None)"
    )
    assert split.get_n_splits() == 3
    assert MultilabelStratifiedKFold().n_splits == 5
    assert MultilabelStratifiedShuffleSplit().n_splits == 10
    search = clone(GridSearchCV(RidgeClassifier(), {"alpha": [1]}, cv=kfold))
    assert search.cv.n_splits == 4


@pytest.mark.parametrize("as_sparse", [False, True])
def test_inside_scikit_learn(rng, as_sparse):
    X, Y = rng.normal(size=(90, 6)), skewed(rng, 90, 5).astype(int)
    Y[:, 0] ^= X[:, 0] > 0
    target = sparse.csr_array(Y) if as_sparse else Y
    for splitter, n in (
        (MultilabelStratifiedKFold(3), 3),
        (MultilabelStratifiedShuffleSplit(4, random_state=0), 4),
    ):
        folds = list(splitter.split(sparse.csr_array(X), target))
        assert len(folds) == n
        values = cross_val_score(RidgeClassifier(), X, Y, cv=splitter, scoring=scorers["hamming_loss"])
        assert values.shape == (n,)
        search = GridSearchCV(
            RidgeClassifier(),
            {"alpha": [0.1, 10]},
            cv=splitter,
            scoring=scorers["micro_f1"],
            error_score="raise",
        )
        assert search.fit(X, Y).n_splits_ == n


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultilabelStratifiedKFold(1), "n_splits=2 or more"),
        (lambda: MultilabelStratifiedKFold(2.5), "number of folds must be of Integral type"),
        (lambda: MultilabelStratifiedKFold(2, random_state=1), "random_state has no effect"),
        (
            lambda: next(MultilabelStratifiedKFold(4).split([1, 2, 3], [[1], [0], [1]])),
            "n_splits=4 greater than",
        ),
        (lambda: next(MultilabelStratifiedKFold(2).split([1, 2, 3])), "y must be given"),
        (lambda: next(MultilabelStratifiedShuffleSplit(2).split([1, 2, 3])), "y must be given"),
        (lambda: next(MultilabelStratifiedKFold(2).split([1, 2], [[1], [0], [1]])), "inconsistent numbers"),
        (
            lambda: next(MultilabelStratifiedKFold(2).split([1, 2], [[1], [2]])),
            "y must be .*, got 2",
        ),
        (lambda: next(MultilabelStratifiedKFold(2).split([1, 2], [["a"], ["b"]])), "y must be .* got dtype"),
        (lambda: next(MultilabelStratifiedKFold(2).split([1, 2], [["a"], ["b", "c"]])), "y has rows .*MultiLabelBin"),
        (lambda: label_imbalance([{"a"}, {"b", "c"}], [[0], [1]]), "y holds label sets .*MultiLabelBinarizer"),
        (lambda: MultilabelStratifiedShuffleSplit(2, test_size=1.5).split([1], [1]), None),
        (
            lambda: next(MultilabelStratifiedShuffleSplit(2, test_size=9).split([1, 2], [[1], [0]])),
            "test_size=9 should be",
        ),
    ],
)
def test_bad_input(call, message):
    if message is None:
        with pytest.raises(ValueError, match=r"test_size=1\.5 should be"):
            next(call())
        return
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_groups_are_refused_as_in_scikit_learn(rng):
    Y = skewed(rng, 20, 3)
    with pytest.warns(UserWarning, match="groups parameter is ignored"):
        list(MultilabelStratifiedKFold(2).split(Y, Y, groups=np.arange(20)))


def test_label_imbalance_by_hand():
    Y = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    # Fold {0, 1}: labels have 2 and 0 rows where 1.5 and 1 are their shares; fold {2, 3}: 1 and 2.
    assert label_imbalance(Y, [[0, 1], [2, 3]]) == pytest.approx((0.5 + 1 + 0.5 + 1) / 4)
    assert label_imbalance(sparse.csr_array(Y), [np.array([0, 1]), np.array([2, 3])]) == 0.75
    assert label_imbalance(np.zeros((4, 2)), [[0, 1], [2, 3]]) == 0.0


def test_unknown_labels_are_split_as_if_they_were_off(rng):
    Y = (rng.random((60, 4)) < 0.4).astype(float)
    unknown = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    for splitter in (MultilabelStratifiedKFold(3), MultilabelStratifiedShuffleSplit(2, random_state=0)):
        for found, expected in zip(splitter.split(Y, unknown), splitter.split(Y, np.nan_to_num(unknown)), strict=True):
            assert_array_equal(found[0], expected[0])
            assert_array_equal(found[1], expected[1])
