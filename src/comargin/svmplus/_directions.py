r"""Which SVM+ problems have a feasible point, and in which directions their privileged weights can move.

With a constant privileged feature every slack can be raised, and every label is feasible. In the literal form this
takes linear programs, per label and over the distinct label sets:

1. max sum_g s_g s.t. <t, yt_g> >= s_g, 0 <= s_g <= 1. At its optimum every s_g is 0 or 1, and 1 wherever some t with
   slacks >= 0 has a positive one. If all are 1, t raises all slacks, and the label is feasible.
2. Sets with s_g = 0 have no slack at all: their rows need margins of 1 by the features alone. w with S_j w.x_j >= 1 for
   them exists, or there is a proof that it does not: a >= 0 with sum a_j S_j x_j = 0, sum a = 1 (Gordan). Together with
   the multipliers of (1) that is a direction in which the dual objective grows for ever.

Where (2) is feasible, t is confined to the subspace in which those slacks stay zero.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from .problem import PrivilegedSets, SVMPlusProblem

# Slacks and certificates are 0 or 1 up to the precision of the linear programs.
_HALF, _ZERO, _PROOF = 0.5, 1e-6, 1e-6


def with_directions(problem: SVMPlusProblem) -> PrivilegedSets:
    """The privileged features with ``lift`` and ``bases``; a ValueError names the labels without a feasible point."""
    n_labels, sets = problem.S.shape[1], problem.privileged
    if sets.lift is not None:
        return sets
    lift, bases, bad = np.zeros((n_labels, n_labels)), {}, []
    for label in range(n_labels):
        t, stuck, proof = _examine(problem, label)
        if proof is not None:
            bad.append(label)
            continue
        if stuck.size:
            _, values, right = np.linalg.svd(sets.features(label, stuck), full_matrices=True)
            rank = int(np.count_nonzero(values > _ZERO * values[0])) if values.size else 0
            bases[label] = np.ascontiguousarray(right[rank:].T)  # orthonormal, and no slack of these sets changes
            t = bases[label] @ (bases[label].T @ t)
        lift[sets.columns(label), label] = t
    if bad:
        raise ValueError(
            f"no weights satisfy all constraints for {len(bad)} of {n_labels} labels ({named(bad)}): rows whose slack "
            "is zero for all privileged weights cannot be separated. Use privileged_intercept=True, which is always "
            "feasible"
        )
    return replace(sets, lift=lift, bases=bases)


def infeasible_labels(problem: SVMPlusProblem) -> dict[int, np.ndarray]:
    """Labels for which no weights satisfy all constraints, each with a proof; R has to be diagonal without zeros.

    A proof is a (n_samples,), as in (2), positive only for rows whose slack no admissible privileged weights raise.
    """
    if problem.privileged.intercept:
        return {}
    proofs = {label: _examine(problem, label)[2] for label in range(problem.S.shape[1])}
    return {label: proof for label, proof in proofs.items() if proof is not None}


def named(labels: Iterable[int]) -> str:
    """Labels in a message, the first ten of them."""
    labels = list(labels)
    return ", ".join(str(label) for label in labels[:10]) + (", ..." if len(labels) > 10 else "")


def _examine(problem: SVMPlusProblem, label: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The t that raises all slacks it can, the sets whose slack is always zero, and a proof that this is too little."""
    there = np.flatnonzero(problem.set_there[:, label])
    U = problem.privileged.features(label, there)
    n_sets, n_columns = U.shape
    t, raised = np.zeros(n_columns), np.zeros(n_sets, dtype=bool)
    if n_columns and n_sets:
        cost = np.concatenate([np.zeros(n_columns), -np.ones(n_sets)])
        bounds = [(None, None)] * n_columns + [(0.0, 1.0)] * n_sets
        limits = sp.hstack([sp.csr_array(-U), sp.eye_array(n_sets)], format="csr")
        found = linprog(cost, limits, np.zeros(n_sets), bounds=bounds, method="highs")
        if found.status != 0:
            raise RuntimeError(f"the linear program over the slacks of label {label} ended with: {found.message}")
        t, raised = found.x[:n_columns], found.x[n_columns:] > _HALF
        t = t / float(np.min(U[raised] @ t, initial=1.0))  # slacks of at least 1 wherever they can be positive
    stuck = there[~raised]
    return t, stuck, _proof(problem, label, stuck) if stuck.size else None


def _proof(problem: SVMPlusProblem, label: int, stuck: np.ndarray) -> np.ndarray | None:
    """Find a >= 0 on the rows of the given sets with sum a_j S_j x_j = 0 and sum a = 1; None if margins can be 1."""
    rows = np.flatnonzero(np.isin(problem.privileged.row_set, stuck) & problem.there[:, label])
    signed = sp.csr_array(sp.csr_array(problem.X[rows]).multiply(problem.S[rows, label][:, None]))
    if problem.prior.diagonal[label] <= 0.0:
        signed = signed * 0.0
    # Features of one scale, whatever theirs is: the linear program has an absolute tolerance.
    largest = abs(signed).max(axis=0).toarray()
    signed = sp.csr_array(signed / np.where(largest > 0.0, largest, 1.0))
    # Gordan: either some w has signed w > 0, or some a >= 0, sum a = 1, has signed^T a = 0.
    equal = sp.vstack([signed.T, np.ones((1, len(rows)))], format="csr")
    right = np.zeros(equal.shape[0])
    right[-1] = 1.0
    found = linprog(np.zeros(len(rows)), A_eq=equal, b_eq=right, bounds=(0.0, None), method="highs")
    if found.status == 2:
        return None
    if found.status != 0:
        raise RuntimeError(f"the linear program over the margins of label {label} ended with: {found.message}")
    if np.max(np.abs(signed.T @ found.x), initial=0.0) > _PROOF or found.x.min() < -_PROOF:
        raise ValueError(f"the proof that label {label} has no feasible point does not hold: scale the features")
    proof = np.zeros(problem.S.shape[0])
    proof[rows] = np.maximum(found.x, 0.0)
    return proof
