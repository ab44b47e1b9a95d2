"""Losses, coefficients and gradients of all pairs of labels, in NumPy: what the compiled loops of the solvers sum."""

import numpy as np


def is_pair(problem):
    """Whether (m, n) is a pair of row i, bool (n_samples, n_labels, n_labels)."""
    on = problem.Y.astype(bool)
    off = ~on if problem.known is None else problem.known & ~on
    return on[:, :, None] & off[:, None, :]


def shortfalls(problem, U):
    """max(0, 1 - U_im + U_in), zero where (m, n) is no pair of row i."""
    return np.where(is_pair(problem), np.maximum(1.0 - U[:, :, None] + U[:, None, :], 0.0), 0.0)


def hinge(problem, F):
    """sum_i C_i sum_mn max(0, 1 - F_im + F_in), the loss of Rank-SVM, (18)."""
    return float(problem.cost @ shortfalls(problem, F).sum(axis=(1, 2)))


def squared_hinge(problem, F):
    """1/2 sum_i C_i sum_mn max(0, 1 - F_im + F_in)^2, the loss of Rank-CVM, (30)."""
    return 0.5 * float(problem.cost @ (shortfalls(problem, F) ** 2).sum(axis=(1, 2)))


def coefficients(problem, U):
    """beta (n_samples, n_labels), (21), of x = C_i max(0, 1 - U_im + U_in), (35)."""
    short = shortfalls(problem, U)
    return problem.cost[:, None] * (short.sum(axis=2) - short.sum(axis=1))


def lowest_gradient(problem, F, U):
    """Min over all pairs of (Theta x)_imn = F_im - F_in + x_imn / C_i, (59), for the x of U."""
    gradient = F[:, :, None] - F[:, None, :] + shortfalls(problem, U)
    return float(gradient[is_pair(problem)].min())
