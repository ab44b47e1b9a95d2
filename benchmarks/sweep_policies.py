"""Which tuned numbers of the solvers matter: each times 1/4 and times 4, on six sets, one at a time.

A number that changes the time of no fit by more than noise, and stops none from converging, is no parameter and should
not be there. Run: python benchmarks/sweep_policies.py [m3l rank ...]   (packages; all by default)
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from comargin import (
    CGMClassifier,
    LSG21Classifier,
    M3LClassifier,
    PrBRClassifier,
    PrMLClassifier,
    RankCVMClassifier,
    RankSVMClassifier,
    StructuredSVMClassifier,
)
from comargin.data import load

SETS = ("emotions", "flags", "enron", "tmc2007-500", "corel5k", "cal500")
N_ROWS, N_LABELS = 300, 30
# Where the numbers are, and the fits that use them.
POLICIES: dict[str, list[tuple[str, list[Any]]]] = {
    "m3l": [
        ("solver", [M3LClassifier(10.0, tol=1e-4), M3LClassifier(1.0, label_correlation="train")]),
        ("_finish", [M3LClassifier(10.0, tol=1e-6), M3LClassifier(10.0, label_correlation="train", tol=1e-6)]),
        ("kernel_solver", [M3LClassifier(10.0, kernel="rbf"), M3LClassifier(kernel="rbf", label_correlation="train")]),
        ("_newton", [M3LClassifier(10.0, loss="logistic", tol=1e-5), M3LClassifier(kernel="rbf", loss="logistic")]),
        ("dcd_solver", [M3LClassifier(1.0, label_correlation="train", solver="dcd", tol=1e-2)]),
    ],
    "rank": [
        ("cvm_solver", [RankCVMClassifier(), RankCVMClassifier(100.0, kernel="linear")]),
        ("svm_solver", [RankSVMClassifier(), RankSVMClassifier(100.0, kernel="linear")]),
        ("_newton", [RankCVMClassifier(100.0, tol=1e-6), RankSVMClassifier(100.0, tol=1e-5)]),
    ],
    "lsg21": [
        ("solver", [LSG21Classifier(1.0), LSG21Classifier(0.1, tol=1e-6)]),
        ("_edge_newton", [LSG21Classifier(0.01, tol=1e-6), LSG21Classifier(1.0, tol=1e-6)]),
    ],
    "structured": [
        ("_part", [StructuredSVMClassifier(1e-3), StructuredSVMClassifier(1e-4, tol=1e-4)]),
        ("_planes", [StructuredSVMClassifier(1e-4, tol=1e-4)]),
        ("cgm_solver", [CGMClassifier(1e-3, max_cliques=10)]),
    ],
    "inference": [("engine", [StructuredSVMClassifier(1e-2, graph="full", tol=1e-2)])],
    "svmplus": [
        ("step_solver", [PrBRClassifier(), PrBRClassifier(0.01)]),
        ("_step", [PrBRClassifier(), PrBRClassifier(0.01), PrBRClassifier(tol=1e-6)]),
        ("_split", [PrMLClassifier(0.1)]),
        ("_alternation", [PrMLClassifier(0.1)]),
        ("prml_solver", [PrMLClassifier(0.1)]),
    ],
}


def rows_of(name: str) -> tuple[Any, np.ndarray]:
    """Some rows and frequent labels of a set; dense features standardised."""
    data = load(name)
    rows = np.random.default_rng(0).permutation(data.X.shape[0])[:N_ROWS]
    X, Y = data.X[rows], data.Y[rows]
    Y = Y.toarray() if sp.issparse(Y) else Y
    frequent = np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:N_LABELS])
    return X if sp.issparse(X) else StandardScaler().fit_transform(X), np.ascontiguousarray(Y[:, frequent])


def cost_of(learners: list[Any], data: list[tuple[Any, np.ndarray]]) -> tuple[np.ndarray, int]:
    """Seconds of computing for every set, and how many fits did not converge."""
    seconds, unconverged = np.zeros(len(data)), 0
    for k, (X, Y) in enumerate(data):
        for learner in learners:
            learner.set_params(random_state=0) if "random_state" in learner.get_params() else None
            began = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                learner.fit(X, Y)
            seconds[k] += time.process_time() - began
            unconverged += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return seconds, unconverged


def scaled(value: Any, factor: float) -> Any:
    """A number, or numbers, times a factor; whole numbers stay whole and at least 1."""
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def sweep(package: str, module_name: str, learners: list[Any], data: list[Any], show: Callable[[str], None]) -> None:
    """Show, for every number of a policy, the times relative to those of the policy as it is."""
    module = importlib.import_module(f"comargin.{package}.{module_name}")
    policy = module.POLICY
    cost_of(learners, data)  # compiles
    base, before = min((cost_of(learners, data) for _ in range(2)), key=lambda found: float(found[0].sum()))
    show(f"{package}.{module_name}: {base.sum():.2f} s, {before} fits do not converge")
    for field in fields(policy):
        value, parts = getattr(policy, field.name), []
        for factor in (0.25, 4.0):
            module.POLICY = replace(policy, **{field.name: scaled(value, factor)})
            try:
                seconds, unconverged = cost_of(learners, data)
                ratios = seconds / base
                text = f"{seconds.sum() / base.sum():5.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
                parts.append(text + (f" {unconverged - before:+d} unconverged" if unconverged != before else ""))
            except (ValueError, RuntimeError, ArithmeticError) as error:
                parts.append(f"{type(error).__name__}")
            finally:
                module.POLICY = policy
        show(f"  {field.name:<20} {value!s:<22} x1/4 {parts[0]:<40} x4 {parts[1]}")


def main() -> None:
    packages = sys.argv[1:] or list(POLICIES)
    data = [rows_of(name) for name in SETS]
    with threadpool_limits(1):
        for package in packages:
            for module_name, learners in POLICIES[package]:
                sweep(package, module_name, learners, data, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
