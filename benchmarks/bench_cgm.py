"""Structured SVMs: a pass against the potentials alone, and bibtex with a hundred edges.

Run: python benchmarks/bench_cgm.py
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _common import Row, best_of, compared, show, structured_problem
from comargin import CGMClassifier
from comargin.core.row_products import RowProducts
from comargin.core.threads import worker_threads
from comargin.data import load, make_cgm_toy, make_correlated
from comargin.graphs import chow_liu_tree
from comargin.inference import Inference
from comargin.structured._connected_part import ConnectedPart, Pace, PartData
from comargin.structured.labelings import StructuredDual

TITLE = "Structured SVMs and CGM"


def one_pass(n_threads: int) -> Row:
    """One pass on PASCAL's shape with 20 edges, against three times its potentials by BLAS."""
    data = make_correlated(8000, 4096, 20, positive_rate=0.1, seed=0)
    edges = [tuple(edge) for edge in chow_liu_tree(data.Y).edges.tolist()]
    edges.append(next((0, k) for k in range(1, 20) if (0, k) not in edges))
    problem = structured_problem(data.X, data.Y, edges, alpha=1.0)
    W = np.random.default_rng(0).normal(size=(problem.X.shape[1], problem.cliques.n_columns))
    potentials = best_of(5, lambda: problem.X @ W)  # as many threads as BLAS takes
    with worker_threads(n_threads) as pool:
        engine = Inference(20, problem.cliques.cliques)
        start = StructuredDual.true(problem)
        rows = PartData.of(problem, engine, RowProducts(problem.X, pool))
        part = ConnectedPart(rows, Pace(1e-3), 0, start.known[0], None, np.ones(1))
        part.run_pass()  # the inner products of the blocks are computed once
        seconds = best_of(5, part.run_pass)
    work = f"dense 8000 x 4096, 20 labels, {len(edges)} edges, one pass, n_jobs={n_threads}"
    return compared(
        work, seconds, "3 x all potentials by BLAS", 3 * potentials, times_potentials=f"{seconds / potentials:.2f}"
    )


def bibtex() -> Row:
    data = load("bibtex", split="train")
    model = CGMClassifier(
        alpha=1e-3, cliques_per_round=10, max_cliques=100, round_tol=0, tol=1e-2, n_jobs=2, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.Y)
        seconds = time.perf_counter() - start
    work = f"bibtex, CGM with {len(model.cliques_)} edges, gap 1e-2, n_jobs=2"
    return compared(work, seconds, "ten minutes", 600.0, times_potentials="")


def main() -> list[Row]:
    toy = make_cgm_toy(200)
    CGMClassifier(max_cliques=2, random_state=0).fit(toy.X, toy.Y)  # compile
    return [one_pass(1), one_pass(2), bibtex()]


if __name__ == "__main__":
    show(TITLE, main())
