# mypy: ignore-errors
"""Pairwise Frank-Wolfe steps of a structured SVM, on the labelings that each row has met.

    max  D(a) = sum_ip Delta_ip a_ip - 1/2 sum_col scale_col ||v_col||^2,   a_ip >= 0,  sum_p a_ip = m_i,
    V = sum_i x_i q_i^T,   q_i = sum_p a_ip (psi(y_i) - psi(y_ip))

A block of rows is optimised without X: with theta = (X V) scale at its rows and the inner products of its rows, a step
in row r changes theta_j by <x_j, x_r> scale q. V and q are kept as moments (``cliques.py``), of which there
are fewer than columns; ``columns_of_moments`` leads from those to these. The step moves mass g from the known labeling
of the lowest score to that of the highest, s = Delta + theta . psi:

    g = min(a_low, (s_high - s_low) / (<x_r, x_r> sum_col scale_col (psi_high - psi_low)_col^2)),

the exact maximiser along that direction (Lacoste-Julien and Jaggi, 2015, for the linear rate of pairwise steps). Where
the masses allow, the row then goes on along its change, past the best step: D still rises, and passes become fewer.
Columns as in ``cliques.py``: node k, then the states of every clique.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled

# Steps of a row end when the scores of its labelings differ by this fraction of before: later rows move them again.
_ENOUGH = 0.1
# A row moves by this multiple of the best step along its change, as far as its masses allow (over-relaxation).
_RELAXATION = 1.5


class Layout(NamedTuple):
    """Where the columns of the cliques are, and the sets of labels that have a moment.

    members int32: labels of the cliques, one clique after the other.  begin int32 (C + 1,): first place of each there.
    column int32 (C + 1,): first column of each clique, and last their number.  moment int32 (M,): the set of labels
    that are on in the state of a column, -1 if none is.  subset int32: labels of these sets, one set after the other;
    first single labels.  subset_begin int32 (S + 1,): first place of each there.
    """

    members: np.ndarray
    begin: np.ndarray
    column: np.ndarray
    moment: np.ndarray
    subset: np.ndarray
    subset_begin: np.ndarray


class Known(NamedTuple):
    """The labelings that each row has met; slot 0 of a row is its true one.

    labels uint8 (n, capacity, K).  mass (n, capacity): dual variables, with sum m_i.  age int32 (n, capacity): passes
    since the mass was positive.  count int32 (n,): slots in use.
    """

    labels: np.ndarray
    mass: np.ndarray
    age: np.ndarray
    count: np.ndarray


@compiled
def _add_states(values, column, sign, upwards):
    """For each label in turn: off += sign * on, where on and off are the states with and without it; or the reverse."""
    for c in range(column.shape[0] - 1):
        first, last = column[c], column[c + 1]
        bit = 1
        while bit < last - first:
            for col in range(first, last):
                if (col - first) & bit == 0:
                    if upwards:
                        values[col + bit] += sign * values[col]
                    else:
                        values[col] += sign * values[col + bit]
            bit *= 2


@compiled
def _columns(moments, layout, out):
    """Write the columns of one row of moments."""
    moment = layout.moment
    for col in range(moment.shape[0]):
        m = moment[col]
        out[col] = moments[m] if m >= 0 else 0.0
    # [exactly these labels are on] = [they are on] - [they and another one are on]
    _add_states(out, layout.column, -1.0, False)


@compiled
def columns_of_moments(moments, layout, out):
    """Write the columns V (r, M) that have given moments (r, S): V = moments E^T."""
    for i in range(moments.shape[0]):
        _columns(moments[i], layout, out[i])


@compiled
def weights_of_moments(weights, layout, out):
    """Write weights of columns (r, M) as weights of moments (r, S), W E: differences of scores are the same."""
    moment = layout.moment
    work = np.empty(moment.shape[0])
    out[:] = 0.0
    for i in range(weights.shape[0]):
        work[:] = weights[i]
        _add_states(work, layout.column, -1.0, True)  # the transpose of _columns
        for col in range(moment.shape[0]):
            if moment[col] >= 0:
                out[i, moment[col]] += work[col]


@compiled
def _moments(columns, layout, out):
    """Write the moments of one row of columns, which are changed."""
    moment = layout.moment
    _add_states(columns, layout.column, 1.0, False)  # undoes _columns
    for col in range(moment.shape[0] - 1, -1, -1):  # labels last: their columns are their moments
        if moment[col] >= 0:
            out[moment[col]] = columns[col]


@compiled
def _meet(i, labeling, known, oldest):
    """Forget labelings without mass for more than ``oldest`` passes and add one; returns 1 if there is no room."""
    labels, mass, age, count = known
    p = 1
    while p < count[i]:
        age[i, p] = 0 if mass[i, p] > 0.0 else age[i, p] + 1
        if age[i, p] > oldest:
            last = count[i] - 1
            labels[i, p] = labels[i, last]
            mass[i, p] = mass[i, last]
            age[i, p] = age[i, last]
            mass[i, last] = 0.0  # slots that are not in use have no mass
            count[i] = last
            continue
        p += 1
    for p in range(count[i]):
        same = True
        for k in range(labels.shape[2]):
            if labels[i, p, k] != labeling[k]:
                same = False
                break
        if same:
            return 0
    slot = count[i]
    if slot == labels.shape[1]:
        slot = 0
        for p in range(1, count[i]):  # replace the labeling that has had no mass for longest
            if mass[i, p] <= 0.0 and (slot == 0 or age[i, p] > age[i, slot]):
                slot = p
        if slot == 0:
            return 1
    else:
        count[i] += 1
    labels[i, slot] = labeling
    mass[i, slot] = 0.0
    age[i, slot] = 0
    return 0


@compiled
def meet_labelings(rows, found, known, oldest):
    """Let rows int64 (b,) meet labelings uint8 (b, K); returns how many found no room. ``oldest`` as in ``_meet``."""
    n_without_room = 0
    for r in range(rows.shape[0]):
        n_without_room += _meet(rows[r], found[r], known, oldest)
    return n_without_room


@compiled
def structured_block(rows, truth, cost, layout, known, found, oldest, potentials, gram, scale, delta, parts):
    """Optimise the masses of a block of rows; updates ``known`` and writes what V changes by.

    Parameters
    ----------
    rows : ndarray (b,), int64
    truth : uint8 ndarray (n, K)
    cost : ndarray (n, K), of a wrong label
    layout : Layout
    known : Known
    found : uint8 ndarray (b, K), labelings to meet
    oldest : int, passes after which a labeling without mass is forgotten
    potentials : ndarray (b, S), X_rows times the moments; those of a row follow the rows before it
    gram : ndarray (b, b), inner products of the rows
    scale : ndarray (M,)
    delta : ndarray (b, S), written: the moments change by X_rows^T delta
    parts : ndarray (3,), added to: the gap on known labelings as met, the raise of the dual, labelings without room
    """
    members, begin, column = layout.members, layout.begin, layout.column
    labels, mass, _, count = known
    n_rows, n_moments = potentials.shape
    n_labels, n_cliques, capacity = truth.shape[1], begin.shape[0] - 1, labels.shape[1]
    scores, before = np.empty(capacity), np.empty(capacity)
    state_column = np.empty((capacity, n_cliques), dtype=np.int64)
    theta, change = np.empty(scale.shape[0]), np.zeros(scale.shape[0])
    changed_rows, n_changed = np.empty(n_rows, dtype=np.int64), 0
    delta[:] = 0.0
    for r in range(n_rows):
        i = rows[r]
        parts[2] += _meet(i, found[r], known, oldest)
        n_known = count[i]
        if n_known == 1:
            continue
        for c in range(n_changed):
            j = changed_rows[c]
            for m in range(n_moments):
                potentials[r, m] += gram[r, j] * delta[j, m]
        _columns(potentials[r], layout, theta)
        theta *= scale
        total_mass, mean = 0.0, 0.0
        for p in range(n_known):
            score = 0.0
            for k in range(n_labels):
                y = labels[i, p, k]
                if y != 0:
                    score += theta[k]
                if y != truth[i, k]:
                    score += cost[i, k]
            for c in range(n_cliques):
                state = 0
                for t in range(begin[c], begin[c + 1]):
                    state = 2 * state + int(labels[i, p, members[t]])
                state_column[p, c] = column[c] + state
                score += theta[column[c] + state]
            scores[p] = score
            total_mass += mass[i, p]
            mean += mass[i, p] * score
        if total_mass <= 0.0:
            continue
        for p in range(n_known):
            before[p] = mass[i, p]
        moves, enough, raised = False, 0.0, 0.0
        for step in range(2 * n_known):
            high, low = 0, -1
            for p in range(n_known):
                if scores[p] > scores[high]:
                    high = p
                if mass[i, p] > 0.0 and (low < 0 or scores[p] < scores[low]):
                    low = p
            if step == 0:
                parts[0] += total_mass * scores[high] - mean
            violation = scores[high] - scores[low]
            if step == 0:
                enough = _ENOUGH * violation
            if violation <= enough:
                break
            curvature = 0.0
            for k in range(n_labels):
                if labels[i, high, k] != labels[i, low, k]:
                    curvature += scale[k]
            for c in range(n_cliques):
                a, b = state_column[low, c], state_column[high, c]
                if a != b:
                    curvature += scale[a] + scale[b]
            curvature *= gram[r, r]
            moves, moved = True, mass[i, low]
            whole = curvature <= 0.0 or violation >= curvature * moved
            if not whole:
                moved = violation / curvature
            mass[i, high] += moved
            mass[i, low] = 0.0 if whole else mass[i, low] - moved
            raised += moved * (violation - 0.5 * curvature * moved)
            for k in range(n_labels):
                if labels[i, high, k] != labels[i, low, k]:
                    q = moved if labels[i, low, k] != 0 else -moved
                    change[k] += q
                    q *= gram[r, r] * scale[k]
                    for p in range(n_known):
                        if labels[i, p, k] != 0:
                            scores[p] += q
            for c in range(n_cliques):
                a, b = state_column[low, c], state_column[high, c]
                if a != b:
                    for col, q in ((a, moved), (b, -moved)):
                        change[col] += q
                        q *= gram[r, r] * scale[col]
                        for p in range(n_known):
                            if state_column[p, c] == col:
                                scores[p] += q
        if moves:
            curvature, longest = 0.0, np.inf
            for col in range(scale.shape[0]):
                curvature += gram[r, r] * scale[col] * change[col] * change[col]
            for p in range(n_known):
                if mass[i, p] < before[p]:
                    longest = min(longest, before[p] / (before[p] - mass[i, p]))
            if curvature > 0.0:
                slope = raised + 0.5 * curvature
                length = min(_RELAXATION * slope / curvature, longest)
                for p in range(n_known):
                    after = before[p] + length * (mass[i, p] - before[p])
                    mass[i, p] = after if after > 1e-15 * total_mass else 0.0  # rounding leaves no mass behind
                change *= length
                raised = length * (slope - 0.5 * length * curvature)
            parts[1] += raised
            _moments(change, layout, delta[r])
            change[:] = 0.0
            changed_rows[n_changed] = r
            n_changed += 1


@compiled
def scores_of_known(rows, layout, known, potentials, out):
    """Write how much more each labeling of the rows int64 (b,) scores than the true one, 0 in slots not in use.

    potentials (b, M), out (b, at least the slots in use).
    """
    members, begin, column = layout.members, layout.begin, layout.column
    labels, count = known.labels, known.count
    out[:] = 0.0
    for r in range(rows.shape[0]):
        i = rows[r]
        true = 0.0
        for p in range(count[i]):
            score = 0.0
            for k in range(labels.shape[2]):
                if labels[i, p, k] != 0:
                    score += potentials[r, k]
            for c in range(begin.shape[0] - 1):
                state = 0
                for t in range(begin[c], begin[c + 1]):
                    state = 2 * state + int(labels[i, p, members[t]])
                score += potentials[r, column[c] + state]
            if p == 0:
                true = score
            out[r, p] = score - true


@compiled
def structured_coefficients(rows, truth, cost, layout, known, out):
    """Write the moments of q_i of the rows int64 (b,) into ``out`` (b, S); returns their part of sum Delta a."""
    labels, mass, _, count = known
    n_labels, n_moments = truth.shape[1], layout.subset_begin.shape[0] - 1
    out[:] = 0.0
    linear = 0.0
    for r in range(rows.shape[0]):
        i = rows[r]
        for p in range(1, count[i]):
            a = mass[i, p]
            if a <= 0.0:
                continue
            right, met = truth[i], labels[i, p]
            for k in range(n_labels):
                if met[k] != right[k]:
                    linear += a * cost[i, k]
                    out[r, k] += a if right[k] != 0 else -a
            for m in range(n_labels, n_moments):
                if all_on(right, layout, m):
                    out[r, m] += a
                if all_on(met, layout, m):
                    out[r, m] -= a
    return linear


@compiled
def all_on(labeling, layout, m):
    """Whether all labels of the set of moment ``m`` are on in a labeling uint8 (K,)."""
    for t in range(layout.subset_begin[m], layout.subset_begin[m + 1]):
        if labeling[layout.subset[t]] == 0:
            return False
    return True


@compiled
def label_products(known, subset, out):
    """Write sum_p a_ip prod_S y_ip over the labelings p of every row into ``out`` (n,); subset int64: the labels S."""
    labels, mass, count = known.labels, known.mass, known.count
    for i in range(labels.shape[0]):
        total = 0.0
        for p in range(count[i]):
            on = True
            for label in subset:
                if labels[i, p, label] == 0:
                    on = False
                    break
            if on:
                total += mass[i, p]
        out[i] = total


@compiled
def couple_labelings(first, second, first_place, second_place, out):
    """Labelings of two sets of labels as labelings of both, with the same masses on either side.

    Masses are matched from the true labelings on (the northwest corner rule), so that a row with p and q labelings gets
    at most p + q, which ``out`` has room for. ``first_place`` and ``second_place`` int64 say where a label goes in
    ``out``; -1 drops it.
    """
    n_samples = first.labels.shape[0]
    for i in range(n_samples):
        p, q, slot = 0, 0, 0
        left, right = first.mass[i, 0], second.mass[i, 0]
        while True:
            moved = min(left, right)
            if slot == 0 or moved > 0.0:
                for k in range(first_place.shape[0]):
                    if first_place[k] >= 0:
                        out.labels[i, slot, first_place[k]] = first.labels[i, p, k]
                for k in range(second_place.shape[0]):
                    if second_place[k] >= 0:
                        out.labels[i, slot, second_place[k]] = second.labels[i, q, k]
                out.mass[i, slot] = moved
                slot += 1
            left -= moved
            right -= moved
            while left <= 0.0 and p + 1 < first.count[i]:
                p += 1
                left = first.mass[i, p]
            while right <= 0.0 and q + 1 < second.count[i]:
                q += 1
                right = second.mass[i, q]
            if left <= 0.0 or right <= 0.0:
                break
        out.mass[i, 0] += max(left, 0.0) + max(right, 0.0)  # rounding
        out.count[i] = slot
