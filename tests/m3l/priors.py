"""Label correlations of every kind the solvers treat in their own way."""

import numpy as np
import scipy.sparse as sp

PRIORS = ("identity", "diagonal", "dense", "sparse", "low rank", "components", "zero label")


def make_prior(kind, n_labels, rng):
    """A symmetric positive semi-definite R of the given kind."""
    M = rng.normal(size=(n_labels, n_labels))
    if kind == "identity":
        return np.eye(n_labels)
    if kind == "diagonal":
        return np.diag(0.5 + rng.random(n_labels))
    if kind == "dense":
        return 0.3 * np.eye(n_labels) + M @ M.T / n_labels
    if kind == "sparse":  # a chain
        return sp.diags_array(
            [np.full(n_labels - 1, 0.4), np.ones(n_labels), np.full(n_labels - 1, 0.4)], offsets=[-1, 0, 1]
        )
    if kind == "low rank":
        F = rng.normal(size=(n_labels, max(1, n_labels // 3)))
        return F @ F.T
    if kind == "components":  # a pair, a triple and single labels, mixed up
        R = np.eye(n_labels)
        R[0, -1] = R[-1, 0] = -0.6
        if n_labels >= 6:
            R[1, 3] = R[3, 1] = R[3, 4] = R[4, 3] = 0.5
        return R
    if kind == "zero label":
        R = 0.3 * np.eye(n_labels) + M @ M.T / n_labels
        R[1] = R[:, 1] = 0.0
        return R
    raise ValueError(kind)
