"""Small data and quick models for comparisons."""

from dataclasses import replace

import numpy as np
import pytest

from comargin.data import Dataset, make_correlated


@pytest.fixture(scope="session")
def toys():
    """Three small data sets with names."""
    made = [make_correlated(60, n_features=4, n_labels=3, seed=seed) for seed in range(3)]
    return [replace(data, name=f"toy {k}") for k, data in enumerate(made)]


@pytest.fixture(scope="session")
def rare():
    """Labels that some or all training parts never, or always, have."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0.3, np.zeros(60), np.ones(60), np.arange(60) == 7])
    return Dataset(X, Y.astype(int), (), (), "rare")
