# mypy: ignore-errors
"""Pairs of labels with dual variables in a box: Rank-SVM, Eq. (19).

Pair (m, n) of row i stands at ``begin[i] + m (q - p) + n - p``, with m < p <= n < q places in ``order[i]``, which lists
the p relevant labels of the row, then the irrelevant ones up to q, then those that are unknown there.

The hinge C_i max(0, s) of a pair with shortfall s = 1 - f_m + f_n, smoothed around a centre a with step t > 0, is
max_x x s - (x - a)^2 / (2 t) over 0 <= x <= C_i; the maximiser x = clip(a + t s, 0, C_i) is minus its slope.
"""

from ..core.compiled import compiled


@compiled
def rank_svm_terms(F, order, n_relevant, n_known, begin, cost, length, centre, x, beta):
    """Write the maximisers x and beta, Eq. (21); returns the cost of smoothing, sum C_i max(0, s) - x s.

    Parameters
    ----------
    F : ndarray (n, L), scores
    order : int32 ndarray (n, L), labels of each row: relevant, irrelevant, unknown ones
    n_relevant, n_known : int32 ndarray (n,), number of relevant and of known labels
    begin : int64 ndarray (n + 1,), first pair of each row
    cost : ndarray (n,), C_i
    length : float, the step of a pair is length C_i
    centre : ndarray (n_pairs,)
    x : ndarray (n_pairs,), written
    beta : ndarray (n, L), written
    """
    n_labels = F.shape[1]
    excess = 0.0
    for i in range(F.shape[0]):
        p, q, j, top = n_relevant[i], n_known[i], begin[i], cost[i]
        step = length * top
        for k in range(n_labels):
            beta[i, k] = 0.0
        for m in range(p):
            relevant = order[i, m]
            margin, pushed = 1.0 - F[i, relevant], 0.0
            for n in range(p, q):
                irrelevant = order[i, n]
                short = margin + F[i, irrelevant]
                value = min(max(centre[j] + step * short, 0.0), top)
                x[j] = value
                excess += top * max(short, 0.0) - value * short
                pushed += value
                beta[i, irrelevant] -= value
                j += 1
            beta[i, relevant] += pushed
    return excess


@compiled
def rank_svm_curvature(V, order, n_relevant, n_known, begin, cost, length, x, out):
    """Write D V: for row i, length C_i times the Laplacian of the graph of its pairs with 0 < x < C_i, on V_i."""
    n_labels = V.shape[1]
    for i in range(V.shape[0]):
        p, q, j, top = n_relevant[i], n_known[i], begin[i], cost[i]
        step = length * top
        for k in range(n_labels):
            out[i, k] = 0.0
        for m in range(p):
            relevant = order[i, m]
            pushed = 0.0
            for n in range(p, q):
                if 0.0 < x[j] < top:
                    irrelevant = order[i, n]
                    value = step * (V[i, relevant] - V[i, irrelevant])
                    pushed += value
                    out[i, irrelevant] -= value
                j += 1
            out[i, relevant] += pushed


@compiled
def rank_svm_coefficients(x, order, n_relevant, n_known, begin, beta):
    """Write beta_ik: the sum of x over the pairs with k on top minus that over pairs with k below, Eq. (21)."""
    beta[:] = 0.0
    for i in range(beta.shape[0]):
        p, q, j = n_relevant[i], n_known[i], begin[i]
        for m in range(p):
            for n in range(p, q):
                beta[i, order[i, m]] += x[j]
                beta[i, order[i, n]] -= x[j]
                j += 1


@compiled
def rank_svm_room(x, order, n_relevant, n_known, begin, cost, room):
    """Write sum_i min(x, C_i - x) over the rows with the pair (m, n): how far these x can move."""
    room[:] = 0.0
    for i in range(order.shape[0]):
        p, q, j = n_relevant[i], n_known[i], begin[i]
        for m in range(p):
            for n in range(p, q):
                room[order[i, m], order[i, n]] += min(x[j], cost[i] - x[j])
                j += 1


@compiled
def rank_svm_shift(x, order, n_relevant, n_known, begin, cost, part):
    """Add part_mn min(x, C_i - x) to x_imn, parts in [-1, 1]; variables at a bound stay there."""
    for i in range(order.shape[0]):
        p, q, j = n_relevant[i], n_known[i], begin[i]
        for m in range(p):
            for n in range(p, q):
                moved = x[j] + part[order[i, m], order[i, n]] * min(x[j], cost[i] - x[j])
                x[j] = min(max(moved, 0.0), cost[i])
                j += 1


@compiled
def rank_hinge(F, order, n_relevant, n_known, cost):
    """sum_i C_i sum_mn max(0, 1 - F_im + F_in), the loss of Eq. (18)."""
    total = 0.0
    for i in range(F.shape[0]):
        p, q, row = n_relevant[i], n_known[i], 0.0
        for m in range(p):
            margin = 1.0 - F[i, order[i, m]]
            for n in range(p, q):
                row += max(margin + F[i, order[i, n]], 0.0)
        total += cost[i] * row
    return total
