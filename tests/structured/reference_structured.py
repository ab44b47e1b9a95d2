"""Independent optimum of the structured SVM with a squared l2,1 norm over groups of cliques, all labelings written out.

    F(w) = lam/2 ||u||^2 + lam/2 (sum_k ||omega_k||)^2 + 1/n sum_i s_i max_y [Delta(y, y_i) - w.Phi_iy]
    D(a) = sum_iy Delta(y, y_i) a_iy - 1/(2 lam) (||u(a)||^2 + max_k ||omega_k(a)||^2),   a >= 0, sum_y a_iy <= s_i / n
    Phi_iy = Psi(y_i, x_i) - Psi(y, x_i),   u(a), omega(a) = the node and clique parts of sum_iy a_iy Phi_iy

The maximum runs over all labelings, y_i among them. Weighted or not, the loss is divided by the number of rows n,
never by the sum of the weights. At the optimum u = u(a) / lam.

Conventions: ``alpha`` is lam; ``alpha_dual`` is a, of shape (n, 2^K), with labelings in C order, the first label the
most significant bit; the states of a clique are in C order of the labels *as its tuple lists them*. ``fit_intercept``
appends a constant feature as the last of the d. ``groups`` has one integer per clique; None puts all cliques in one
group. The same clique in two groups makes the problem degenerate: the solver then misses the precision asked for here.
"""

import itertools
import warnings
from typing import NamedTuple

import cvxpy as cp
import numpy as np


class Arrays(NamedTuple):
    """Everything but the weights: rows x, one-hot states, and the columns of states that belong together."""

    X: np.ndarray  # (n, d), with the constant feature if there is one
    states: np.ndarray  # (2^K, n_states): which states a labeling puts every node and clique in
    true_states: np.ndarray  # (n, n_states): the same for y_i
    delta: np.ndarray  # (n, 2^K): number of wrong labels
    weights: np.ndarray  # (n,): s_i / n
    node_columns: np.ndarray
    clique_columns: list
    group_columns: list


def all_labelings(n_labels):
    """The 2^K labelings in C order, of shape (2^K, K)."""
    if not 1 <= n_labels <= 10:
        raise ValueError(f"n_labels must be 1 to 10 to write out all labelings, got {n_labels}")
    return np.array(list(itertools.product((0, 1), repeat=n_labels)))


def one_hot_states(labelings, cliques):
    """State of every node, then of every clique, one-hot: shape (n_labelings, 2 K + sum 2^|c|)."""
    blocks = []
    for c in [(k,) for k in range(labelings.shape[1])] + [tuple(c) for c in cliques]:
        significance = 2 ** np.arange(len(c))[::-1]
        blocks.append(np.eye(2 ** len(c))[labelings[:, list(c)] @ significance])
    return np.hstack(blocks)


def features(cliques, labelings):
    """psi(y): which columns of a ``CliqueSet`` each labeling adds up; (n, n_columns) in {0, 1}, float64."""
    labelings = np.asarray(labelings)
    states = one_hot_states(labelings, cliques.cliques)[:, 2 * cliques.n_labels :]
    return np.hstack([labelings, states]).astype(np.float64)


def label_products(labelings, subsets):
    """Whether all labels of a set are on, for every labeling and set: shape (n_labelings, n_subsets)."""
    return np.column_stack([np.all(np.asarray(labelings)[:, list(subset)], axis=1) for subset in subsets]).astype(float)


def state_signs(n_labels, cliques, subsets):
    """E with psi(y) = E (label products of y) + constant, by inclusion and exclusion: (n_columns, n_subsets).

    Columns: every label, then the states of every clique. [exactly the labels ``on`` of c are on] is the sum over sets
    between ``on`` and c of (-1)^|set - on| times their product.
    """
    rows = [[float(subset == (k,)) for subset in subsets] for k in range(n_labels)]
    for c in cliques:
        for state in itertools.product((0, 1), repeat=len(c)):
            on = {label for label, y in zip(c, state, strict=True) if y}
            rows.append([(-1.0) ** len(set(s) - on) if on <= set(s) <= set(c) else 0.0 for s in subsets])
    return np.array(rows)


def problem_arrays(X, Y, cliques, groups, fit_intercept=True, sample_weight=None):
    """What the functions below have in common."""
    X, Y = np.asarray(X, dtype=float), np.asarray(Y).astype(int)
    n, n_labels = Y.shape
    if fit_intercept:
        X = np.column_stack([X, np.ones(n)])
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    groups = np.zeros(len(cliques), dtype=int) if groups is None else np.asarray(groups, dtype=int)
    if groups.shape != (len(cliques),):
        raise ValueError(f"groups must have one integer per clique, {len(cliques)} of them, got shape {groups.shape}")
    labelings = all_labelings(n_labels)
    ends = 2 * n_labels + np.cumsum([0] + [2 ** len(c) for c in cliques])
    columns = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    return Arrays(
        X,
        one_hot_states(labelings, cliques),
        one_hot_states(Y, cliques),
        (labelings[None, :, :] != Y[:, None, :]).sum(axis=2).astype(float),
        s / n,
        np.arange(2 * n_labels),
        columns,
        [np.concatenate([c for c, g in zip(columns, groups, strict=True) if g == k]) for k in np.unique(groups)],
    )


def split_weights(W, problem):
    """Nodes (K, 2, d) and a list of (2^|c|, d) from a (d, n_states) array."""
    u = W[:, problem.node_columns].T.reshape(-1, 2, W.shape[0])
    return u, [W[:, columns].T for columns in problem.clique_columns]


def join_weights(u, clique_weights):
    """The (d, n_states) array of nodes (K, 2, d) and cliques (2^|c|, d)."""
    u = np.asarray(u, dtype=float)
    return np.vstack([u.reshape(-1, u.shape[2]), *clique_weights]).T


def primal_value(p, alpha, W):
    """F for weights of shape (d, n_states)."""
    potentials = p.X @ W
    worst = (p.delta + potentials @ p.states.T).max(axis=1) - (potentials * p.true_states).sum(axis=1)
    group_norms = [np.linalg.norm(W[:, columns]) for columns in p.group_columns]
    return float(0.5 * alpha * (np.sum(W[:, p.node_columns] ** 2) + sum(group_norms) ** 2) + p.weights @ worst)


def dual_sums(p, alpha_dual):
    """The sum over i and y of a_iy Phi_iy, of shape (d, n_states)."""
    return p.X.T @ (alpha_dual.sum(axis=1, keepdims=True) * p.true_states - alpha_dual @ p.states)


def dual_value(p, alpha, alpha_dual):
    """D for dual variables of shape (n, 2^K), feasible or not."""
    U = dual_sums(p, alpha_dual)
    group_norms = [np.linalg.norm(U[:, columns]) for columns in p.group_columns]
    squares = np.sum(U[:, p.node_columns] ** 2) + max(group_norms, default=0.0) ** 2
    return float(np.sum(p.delta * alpha_dual) - squares / (2.0 * alpha))


def nearest_feasible(p, alpha_dual):
    """Rows that exceed their mass by the solver's tolerance, scaled down to it."""
    alpha_dual = np.maximum(alpha_dual, 0.0)
    mass = alpha_dual.sum(axis=1)
    return alpha_dual * np.minimum(1.0, np.divide(p.weights, mass, out=np.ones(len(mass)), where=mass > 0))[:, None]


def solve(problem):
    """Run CLARABEL. Its own opinion on precision is not asked: the caller evaluates both objectives at the answer."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"CLARABEL ended with {problem.status}")


def structured_optimum(X, Y, cliques, groups, alpha, fit_intercept=True, sample_weight=None):
    """Minimum of F and its minimiser: objective, u (K, 2, d), list of clique weights (2^|c|, d).

    The objective is F at these weights, certified by the multipliers to 1e-7 relative.
    """
    p = problem_arrays(X, Y, cliques, groups, fit_intercept, sample_weight)
    # F / lam: of the size of ||w||^2, so that the solver's tolerances, absolute below 1, stay relative for a small lam.
    W = cp.Variable((p.X.shape[1], p.states.shape[1]))
    worst = cp.Variable((len(p.X), 1))
    potentials = p.X @ W
    margins = worst @ np.ones((1, len(p.states))) >= p.delta + potentials @ p.states.T
    loss = cp.sum(worst, axis=1) - cp.sum(cp.multiply(potentials, p.true_states), axis=1)
    penalty = 0.5 * cp.sum_squares(W[:, p.node_columns])
    if p.group_columns:
        penalty += 0.5 * cp.square(cp.sum(cp.hstack([cp.norm(W[:, c], "fro") for c in p.group_columns])))
    solve(cp.Problem(cp.Minimize(penalty + (p.weights / alpha) @ loss), [margins]))
    objective = primal_value(p, alpha, W.value)
    gap = objective - dual_value(p, alpha, nearest_feasible(p, alpha * margins.dual_value))
    if not gap <= 1e-7 * objective:
        raise RuntimeError(f"the reference optimum {objective:.9g} is certified only to {gap:.2g}")
    return objective, *split_weights(W.value, p)


def structured_dual_optimum(X, Y, cliques, groups, alpha, fit_intercept=True, sample_weight=None):
    """Maximum of D and a maximiser of shape (n, 2^K), modelled on its own, not read from the primal's multipliers.

    The value is D at this feasible point: a lower bound of the minimum of F however precise the solver was.
    """
    p = problem_arrays(X, Y, cliques, groups, fit_intercept, sample_weight)
    # a = lam B and D / lam, as above.
    B = cp.Variable(p.delta.shape, nonneg=True)
    mass = cp.sum(B, axis=1)
    U = p.X.T @ (cp.diag(mass) @ p.true_states - B @ p.states)
    value = cp.sum(cp.multiply(p.delta, B)) - 0.5 * cp.sum_squares(U[:, p.node_columns])
    constraints = [mass <= p.weights / alpha]
    if p.group_columns:
        largest = cp.Variable(nonneg=True)
        constraints += [cp.norm(U[:, c], "fro") <= largest for c in p.group_columns]
        value -= 0.5 * cp.square(largest)
    solve(cp.Problem(cp.Maximize(value), constraints))
    alpha_dual = nearest_feasible(p, alpha * B.value)
    return dual_value(p, alpha, alpha_dual), alpha_dual


def structured_objective(X, Y, cliques, groups, alpha, u, clique_weights, fit_intercept=True, sample_weight=None):
    """F at the given weights: u (K, 2, d) and one (2^|c|, d) array per clique."""
    p = problem_arrays(X, Y, cliques, groups, fit_intercept, sample_weight)
    return primal_value(p, alpha, join_weights(u, clique_weights))


def structured_dual_sums(X, Y, cliques, alpha_dual, fit_intercept=True):
    """The sums u(a) (K, 2, d) and v_c(a) (2^|c|, d) for each clique; there is no 1 / lam in them."""
    p = problem_arrays(X, Y, cliques, None, fit_intercept)
    return split_weights(dual_sums(p, np.asarray(alpha_dual)), p)


def structured_dual(X, Y, cliques, groups, alpha, alpha_dual, fit_intercept=True, sample_weight=None):
    """D at ``alpha_dual`` (n, 2^K). The column of y_i may hold the slack of a full simplex: it counts for nothing."""
    p = problem_arrays(X, Y, cliques, groups, fit_intercept, sample_weight)
    alpha_dual = np.asarray(alpha_dual, dtype=float)
    rounding = 1e-9 * max(p.weights.max(), 1.0 / len(p.X))
    if alpha_dual.min() < -rounding or np.any(alpha_dual.sum(axis=1) > p.weights + rounding):
        raise ValueError("alpha_dual must be >= 0 with sum_y alpha_dual[i, y] <= sample_weight[i] / n")
    return dual_value(p, alpha, alpha_dual)
