# mypy: ignore-errors
"""Pairs of labels in a row, without listing them.

Sort the relevant labels of a row by rising score, a_1 <= a_2 <= ..., and the irrelevant ones by falling score plus the
margin, b_1 >= b_2 >= ... A pair (m, n) violates its margin when b_n > a_m, so the violated pairs of m are those with
the first ``reach[m]`` irrelevant labels, and this number falls with m: the violated pairs form a staircase. Sums over
all of them are sums of prefixes, O(L) instead of O(|L_i| |N_i|).

``order[i]`` lists the labels of row i: relevant ones, irrelevant ones, both sorted as above, then unknown ones, which
have no pairs. ``reach[i]`` counts, in the same places, the violated pairs of each known label.
"""

import numpy as np

from ..core.compiled import compiled

# Newton steps of one row before they are damped, and at most; two or three are the rule.
_PLAIN_STEPS = 10
_MOST_STEPS = 50
_HALVINGS = 40
_ROUNDING = 1e-14  # relative change


@compiled
def _sort_part(order, begin, end, sign, scores):
    """Insertion sort of ``order[begin:end]`` by rising sign * score: linear time if nearly sorted."""
    for p in range(begin + 1, end):
        label = order[p]
        key = sign * scores[label]
        q = p - 1
        while q >= begin and sign * scores[order[q]] > key:
            order[q + 1] = order[q]
            q -= 1
        order[q + 1] = label


@compiled
def _sort_values(values, sign):
    """Sort by rising sign * value."""
    for p in range(1, values.shape[0]):
        value = values[p]
        q = p - 1
        while q >= 0 and sign * values[q] > sign * value:
            values[q + 1] = values[q]
            q -= 1
        values[q + 1] = value


@compiled
def _sort(order, n_relevant, scores):
    """Relevant labels by rising score, irrelevant ones by falling score."""
    _sort_part(order, 0, n_relevant, 1.0, scores)
    _sort_part(order, n_relevant, order.shape[0], -1.0, scores)


@compiled
def _stairs(a, b, reach):
    """Write how many of the sorted ``b`` exceed each ``a`` into ``reach[:len(a)]``; returns whether any changed."""
    changed = False
    count = b.shape[0]
    for m in range(a.shape[0]):
        while count > 0 and b[count - 1] <= a[m]:
            count -= 1
        if reach[m] != count:
            reach[m] = count
            changed = True
    return changed


@compiled
def _solve_stairs(a0, b0, kappa, reach, slope, offset, a, b):
    """Solve a_m = a0_m + kappa sum_{n < reach_m} (b_n - a_m), b_n = b0_n - kappa sum_{m: reach_m > n} (b_n - a_m).

    With A_t and B_s the sums of the first t and s values, a_m = (a0_m + kappa B_{reach_m}) / (1 + kappa reach_m), and
    b_n likewise. The backward pass, from where B is 0, writes B_s = slope A_t + offset; the forward pass starts from
    A_0 = 0. This is elimination in a diagonally dominant matrix. If all a0 and b0 are 1 so are a and b, hence
    s = slope t + unit, where ``unit`` is the offset for such data: with it no step subtracts, and kappa may be huge.
    """
    n_relevant, n_irrelevant = a0.shape[0], b0.shape[0]
    alpha, beta, unit, s = 0.0, 0.0, 0.0, 0
    for m in range(n_relevant - 1, -1, -1):
        if reach[m] == 0:
            a[m] = a0[m]
            continue
        scale = 1.0 / (1.0 + kappa * (m + 1))
        while s < reach[m]:
            alpha += kappa * scale
            beta += b0[s] * scale
            unit += scale
            s += 1
        own = 1.0 + kappa * s
        share = 1.0 / (1.0 + kappa * (alpha * m + unit))
        beta = (beta * own + alpha * a0[m]) * share
        unit = (unit * own + alpha) * share
        alpha *= own * share
        slope[m], offset[m] = alpha, beta
    total = 0.0
    for n in range(s, n_irrelevant):
        b[n] = b0[n]
    for m in range(n_relevant):
        if reach[m] == 0:
            break
        a[m] = (a0[m] + kappa * (slope[m] * total + offset[m])) / (1.0 + kappa * reach[m])
        total += a[m]
        low = reach[m + 1] if m + 1 < n_relevant else 0
        scale = 1.0 / (1.0 + kappa * (m + 1))
        for n in range(low, reach[m]):
            b[n] = (b0[n] + kappa * total) * scale


@compiled
def _row_objective(a0, b0, kappa, a, b):
    """1/2 |a - a0|^2 + 1/2 |b - b0|^2 + kappa / 2 sum_mn max(0, b_n - a_m)^2."""
    value = 0.0
    for n in range(b.shape[0]):
        value += (b[n] - b0[n]) ** 2
    for m in range(a.shape[0]):
        value += (a[m] - a0[m]) ** 2
        for n in range(b.shape[0]):
            value += kappa * max(b[n] - a[m], 0.0) ** 2
    return 0.5 * value


@compiled
def solve_row(a0, b0, kappa, reach, work, a, b):
    """Minimise ``_row_objective`` over a (p,) and b (L - p,), a guess on entry; exact up to rounding.

    ``a0`` rises, ``b0`` falls, ``kappa`` is K_ii C_i > 0, ``work`` (4, L) is scratch. The first p entries of ``reach``
    int32 (L,) are the staircase of the solution on return.
    """
    n_relevant, n_irrelevant = a0.shape[0], b0.shape[0]
    slope, offset = work[0], work[1]
    trial_a, trial_b = work[2, :n_relevant], work[3, :n_irrelevant]
    _stairs(a, b, reach)
    for step in range(_MOST_STEPS):
        whole = True
        if step >= _PLAIN_STEPS:
            # Plain steps cycle; from here each one must lower the strictly convex objective. Sorted values are nearer
            # to a0 and b0, and their staircase is exactly the set of violated pairs.
            _sort_values(a, 1.0)
            _sort_values(b, -1.0)
            _stairs(a, b, reach)
        _solve_stairs(a0, b0, kappa, reach, slope, offset, trial_a, trial_b)
        if step >= _PLAIN_STEPS:
            value = _row_objective(a0, b0, kappa, a, b)
            for _ in range(_HALVINGS):
                if _row_objective(a0, b0, kappa, trial_a, trial_b) < value:
                    break
                whole = False
                for m in range(n_relevant):
                    trial_a[m] = 0.5 * (a[m] + trial_a[m])
                for n in range(n_irrelevant):
                    trial_b[n] = 0.5 * (b[n] + trial_b[n])
        change = 0.0
        for m in range(n_relevant):
            change = max(change, abs(trial_a[m] - a[m]))
            a[m] = trial_a[m]
        for n in range(n_irrelevant):
            change = max(change, abs(trial_b[n] - b[n]))
            b[n] = trial_b[n]
        changed = _stairs(a, b, reach)
        if (whole and not changed) or change <= _ROUNDING * (abs(a[0]) + abs(b[0])):
            return


@compiled
def rank_cvm_block(theta, gram, visits, first, order, n_relevant, n_known, cost, U, beta, delta):
    """Solve the rows of a block one after the other, each exactly given the others; returns the lowest gradient met.

    For row i alone the dual max 1^T x - 1/2 x^T Theta x, x >= 0 is that of ``solve_row`` with a0 and b0 the scores
    without the row's own part, and kappa = K_ii C_i; its solution is the new U_i.

    Parameters
    ----------
    theta : ndarray (B, L), scores of the rows of the block; updated
    gram : ndarray (B, B), K of these rows
    visits : int ndarray, rows of the block in the order of their visits
    first : int, index of the block's first row
    order : int32 ndarray (n, L), labels of each row: relevant, irrelevant, unknown ones
    n_relevant, n_known : int32 ndarray (n,), number of relevant and of known labels
    cost : ndarray (n,), C_i
    U : ndarray (n, L), the variables; updated
    beta : ndarray (n, L), their coefficients; updated
    delta : ndarray (B, L), change of beta on return
    """
    n_labels = theta.shape[1]
    a, b, a0, b0 = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    work, reach, change = np.empty((4, n_labels)), np.empty(n_labels, dtype=np.int32), np.empty(n_labels)
    lowest = np.inf
    delta[:] = 0.0
    for r in visits:
        i = first + r
        p, q, own = n_relevant[i], n_known[i], gram[r, r]
        labels = order[i, :q]
        lowest = min(lowest, _lowest(theta[r], U[i], labels, p))
        others = change  # scores without the row's own part
        for k in range(n_labels):
            others[k] = theta[r, k] - own * beta[i, k]
        _sort(labels, p, others)
        for m in range(p):
            a0[m], a[m] = others[labels[m]], U[i, labels[m]]
        for n in range(p, q):
            b0[n - p], b[n - p] = others[labels[n]] + 1.0, U[i, labels[n]] + 1.0
        solve_row(a0[:p], b0[: q - p], own * cost[i], reach, work, a[:p], b[: q - p])
        _push(a[:p], b[: q - p], reach, cost[i], work[0])
        for m in range(p):
            U[i, labels[m]] = a[m]
        for n in range(p, q):
            U[i, labels[n]] = b[n - p] - 1.0
        moved = False
        for position in range(q):
            k = labels[position]
            change[k] = work[0, position] - beta[i, k]
            beta[i, k] = work[0, position]
            moved = moved or change[k] != 0.0
        for position in range(q, n_labels):
            change[order[i, position]] = 0.0
        if not moved:
            continue
        delta[r] += change
        for j in range(theta.shape[0]):
            value = gram[r, j]
            for k in range(n_labels):
                theta[j, k] += value * change[k]
    return lowest


@compiled
def _push(a, b, reach, cost, out):
    """Coefficients of sorted labels: cost sum_n (b_n - a_m) for m, minus cost sum_m (b_n - a_m) for n, over pairs."""
    n_relevant = a.shape[0]
    zero = b[0]  # scores relative to the largest: their sums keep more digits
    prefix, count = 0.0, 0
    for m in range(n_relevant - 1, -1, -1):
        while count < reach[m]:
            prefix += b[count] - zero
            count += 1
        out[m] = cost * (prefix - reach[m] * (a[m] - zero))
    for n in range(count, b.shape[0]):
        out[n_relevant + n] = 0.0
    total = 0.0
    for m in range(n_relevant):
        if reach[m] == 0:
            break
        total += a[m] - zero
        low = reach[m + 1] if m + 1 < n_relevant else 0
        for n in range(low, reach[m]):
            out[n_relevant + n] = -cost * ((m + 1) * (b[n] - zero) - total)


@compiled
def _lowest(f, u, labels, n_relevant):
    """Min over the pairs of a row of the gradient f_m - f_n + max(0, 1 - u_m + u_n), Eqs. (35), (59)."""
    lowest = np.inf
    for m in range(n_relevant):
        score, own = f[labels[m]], 1.0 - u[labels[m]]
        for n in range(n_relevant, labels.shape[0]):
            k = labels[n]
            lowest = min(lowest, score - f[k] + max(own + u[k], 0.0))
    return lowest


@compiled
def rank_lowest(F, U, order, n_relevant, n_known):
    """Min over all pairs of F_im - F_in + max(0, 1 - U_im + U_in)."""
    lowest = np.inf
    for i in range(F.shape[0]):
        lowest = min(lowest, _lowest(F[i], U[i], order[i, : n_known[i]], n_relevant[i]))
    return lowest


@compiled
def rank_cvm_terms(U, order, n_relevant, n_known, cost, reach, beta):
    """Write the staircase and beta of U, Eq. (21); returns sum x and sum x^2 / C_i of x = C_i max(0, b - a)."""
    n_labels = U.shape[1]
    a, b, pushed = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    total, squares = 0.0, 0.0
    for i in range(U.shape[0]):
        p, q = n_relevant[i], n_known[i]
        labels = order[i, :q]
        _sort(labels, p, U[i])
        for m in range(p):
            a[m] = U[i, labels[m]]
        for n in range(p, q):
            b[n - p] = U[i, labels[n]] + 1.0
        _stairs(a[:p], b[: q - p], reach[i])
        for n in range(q - p):
            reach[i, p + n] = 0
        _push(a[:p], b[: q - p], reach[i], cost[i], pushed)
        for position in range(n_labels):
            beta[i, order[i, position]] = pushed[position] if position < q else 0.0
        for m in range(p):
            total += pushed[m]
            row_squares = 0.0
            for n in range(reach[i, m]):
                row_squares += (b[n] - a[m]) ** 2
                reach[i, p + n] += 1
            squares += cost[i] * row_squares
    return total, squares


@compiled
def rank_cvm_curvature(V, order, n_relevant, n_known, cost, reach, out):
    """Write D V: for row i, C_i times the Laplacian of the graph of its violated pairs, applied to V_i."""
    n_labels = V.shape[1]
    for i in range(V.shape[0]):
        p, q, labels, c = n_relevant[i], n_known[i], order[i], cost[i]
        prefix, count = 0.0, 0
        for m in range(p - 1, -1, -1):
            while count < reach[i, m]:
                prefix += V[i, labels[p + count]]
                count += 1
            out[i, labels[m]] = c * (reach[i, m] * V[i, labels[m]] - prefix)
        prefix, count = 0.0, 0
        for n in range(q - p - 1, -1, -1):
            while count < reach[i, p + n]:
                prefix += V[i, labels[count]]
                count += 1
            out[i, labels[p + n]] = c * (reach[i, p + n] * V[i, labels[p + n]] - prefix)
        for position in range(q, n_labels):
            out[i, labels[position]] = 0.0
