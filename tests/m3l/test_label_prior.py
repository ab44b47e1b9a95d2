"""Splitting a label correlation into parts: nothing lost, the right form, errors that say which and by how much."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.m3l.priors import PRIORS, make_prior

from comargin.m3l.prior import _surely_definite, identity_prior, split_prior, whole_prior


def together(parts, n_labels):
    R = np.zeros((n_labels, n_labels))
    for part in parts:
        R[np.ix_(part.labels, part.labels)] = part.to_array()
        assert_allclose(part.diagonal, np.diag(part.to_array()), atol=1e-12)
    return R


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("n_labels", [2, 7, 40])
def test_parts_are_the_whole(kind, n_labels, rng):
    R = make_prior(kind, n_labels, rng)
    parts = split_prior(R, n_labels)
    assert sorted(np.concatenate([p.labels for p in parts])) == list(range(n_labels))
    assert_allclose(together(parts, n_labels), R.toarray() if sp.issparse(R) else R, atol=1e-10)
    V = rng.normal(size=(3, n_labels))
    for part in parts:
        assert_allclose(part.apply(V[:, part.labels]), V[:, part.labels] @ part.to_array(), atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "forms"),
    [
        ("identity", {"diagonal"}),
        ("diagonal", {"diagonal"}),
        ("dense", {"dense"}),
        ("sparse", {"sparse"}),
        ("low rank", {"factor"}),
        ("components", {"diagonal", "dense"}),
    ],
)
def test_forms(kind, forms, rng):
    assert {p.form for p in split_prior(make_prior(kind, 40, rng), 40)} == forms


def test_identity():
    assert_allclose(together(identity_prior(5), 5), np.eye(5))


@pytest.mark.parametrize(
    ("R", "message"),
    [
        (np.eye(3), r"must have shape \(4, 4\).*got \(3, 3\)"),
        (np.ones(4), "label_correlation must be a square matrix"),
        (np.full((4, 4), "x"), "label_correlation must be real numbers"),
        (
            np.eye(4) + np.eye(4, k=1) * 0.25,
            r"label_correlation must be symmetric, but entries \(0, 1\) and \(1, 0\) differ by 0.25",
        ),
        (np.eye(4) - 0.5, "positive semi-definite; its smallest eigenvalue is -1"),
        (np.diag([1.0, 1.0, -0.5, 1.0]), "smallest eigenvalue is -0.5"),
        (np.diag([1.0, np.nan, 1.0, 1.0]), "finite"),
    ],
)
def test_errors_say_which_and_by_how_much(R, message):
    with pytest.raises(ValueError, match=message):
        split_prior(R, 4)


@pytest.mark.parametrize("sparse", [False, True])
def test_definite_matrices_are_told_without_their_eigenvalues(rng, sparse):
    """Never a wrong yes, and a yes whenever the smallest eigenvalue is well above rounding."""
    told = 0
    for _ in range(60):
        n = int(rng.integers(5, 30))
        M = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.08)
        R = sp.csr_array(M + M.T + rng.choice([0.5, 2.0, 4.0]) * np.eye(n))
        definite = np.linalg.eigvalsh(R.toarray())[0] > 1e-8
        assert _surely_definite(R, sparse) == definite
        told += definite
    assert 5 < told < 55
    singular = sp.csr_array(np.ones((4, 4)))
    assert not _surely_definite(singular, sparse)


def test_a_chain_of_many_labels_is_no_obstacle():
    """As a dense matrix it would take three gigabytes."""
    n = 20_000
    R = sp.diags_array([np.full(n - 1, 0.4), np.ones(n), np.full(n - 1, 0.4)], offsets=[-1, 0, 1])
    (part,) = split_prior(R, n)
    assert part.form == "sparse"


def test_rounding_is_forgiven(rng):
    F = rng.normal(size=(30, 4))
    R = F @ F.T + 1e-13 * rng.normal(size=(30, 30))
    assert split_prior(R, 30)[0].matrix.shape == (30, 4)


@pytest.mark.parametrize("kind", PRIORS)
def test_parts_make_up_the_whole_and_factors_their_part(kind, rng):
    R = make_prior(kind, 7, rng)
    prior = split_prior(R, 7)
    assert_allclose(whole_prior(prior).to_array(), R.toarray() if sp.issparse(R) else R, atol=1e-12)
    for part in prior:
        assert_allclose(part.factor @ part.factor.T, part.to_array(), atol=1e-12)
