"""What all benchmarks share: timing and the table.

A row is a dict; of a comparison its first keys are work, ours_s, peer, peer_s, ratio.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from comargin.structured.cliques import CliqueSet
from comargin.structured.problem import StructuredProblem

Row = dict[str, Any]


def best_of(repeats: int, work: Callable[[], Any]) -> float:
    """Shortest wall time of several runs, in seconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cold_seconds(code: str) -> float:
    """Seconds since ``start`` was set in ``code``, in a new process that has to compile everything."""
    script = f"import time\nfrom comargin import M3LClassifier\n{code}\nprint(time.perf_counter() - start)"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def compared(work: str, ours_s: float, peer: str, peer_s: float, **more: Any) -> Row:
    """One comparison; ratio > 1 means that we are faster."""
    return {"work": work, "ours_s": ours_s, "peer": peer, "peer_s": peer_s, "ratio": peer_s / ours_s, **more}


def structured_problem(X: np.ndarray, Y: np.ndarray, edges: list[Any], alpha: float) -> StructuredProblem:
    """A structured SVM with one group of edges, a constant feature appended."""
    n_samples, n_labels = Y.shape
    cliques = CliqueSet(n_labels, tuple(tuple(edge) for edge in edges), (0,) * len(edges))
    rows = np.ascontiguousarray(np.column_stack([X, np.ones(n_samples)]))
    mass = np.full(n_samples, 1.0 / n_samples)
    return StructuredProblem(rows, Y.astype(np.uint8), mass, np.ones(Y.shape), cliques, alpha)


def show(title: str, rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if key in ("work", "peer") else "right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=180).print(table)
