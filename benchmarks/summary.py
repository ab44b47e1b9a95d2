"""Tables of results.json as Markdown, and into the pages that show them. Run: python benchmarks/summary.py"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def results() -> dict:
    return json.loads((ROOT / "benchmarks" / "results.json").read_text())


# Beginnings of "work" and "peer" of the comparisons that the README shows: one of each kind, won or lost.
IN_README = (
    ("text-like 23149 x 47236, 103 labels, R = I, gap 1e-3, n_jobs=2", "LIBLINEAR, n_jobs=2"),
    ("text-like 781265 x 47236", "LIBLINEAR"),
    ("dense 5000 x 120, 101 labels, rbf, n_jobs=2", "LIBSVM, n_jobs=2"),
    ("text-like 23149 x 47236, 103 labels, R = I, gap 1e-3, n_jobs=2", "LIBLINEAR, n_jobs=1"),
    ("bibtex, C' = 0.1", "LIBLINEAR"),
    ("text-like 23149 x 47236, 103 labels, 10 values of C", "4 fits"),
    ("bibtex, 10 values of C", "4 fits"),
    ("dense 8000 x 4096, 20 labels, 20 edges, one pass, n_jobs=2", "3 x"),
    ("Rank-CVM, yeast (58248 pairs), gap 0.001", "Frank-Wolfe"),
    ("LSG21, scene 2407 x 294, 6 labels, alpha = 0.1 alpha_max, objective", "solver"),
    ("LSG21, scene 2407 x 294, 6 labels, alpha = 0.01 alpha_max, objective", "solver"),
    ("PrBR, half of bibtex, C = 1", "three M3L fits, R = I"),
    ("PrBR, half of bibtex, C = 0.01", "three M3L fits, R = I"),
    ("sparse ARFF tmc2007-500", "liac-arff, arrays"),
    ("first fit ever", "LinearSVC"),
)


def speed(everything: bool) -> str:
    """Comparisons of time: all, or those of the README."""
    lines = ["| work | ours | first ever | peer | theirs | ratio |", "|---|---|---|---|---|---|"]
    for name, rows in results().items():
        for row in rows if name.startswith("bench_") else ():
            chosen = any(
                row["work"].startswith(a) and row["peer"].startswith(b) for a, b in IN_README if "ratio" in row
            )
            if "ratio" in row and (everything or chosen):
                ours, theirs = f"{row['ours_s']:.3g} s", f"{row['peer_s']:.3g} s"
                cold = f"{row['cold_s']:.3g} s" if "cold_s" in row else ""
                lines.append(f"| {row['work']} | {ours} | {cold} | {row['peer']} | {theirs} | {row['ratio']:.1f} |")
    return "\n".join(lines) + "\n"


def table(name: str) -> str:
    """A benchmark's rows as they are."""
    rows = results()[name]
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def update_pages() -> None:
    """Replace what stands between the markers of the pages."""
    for page, name, text in (
        ("README.md", "speed", speed(everything=False)),
        ("docs/speed.md", "speed", speed(everything=True)),
        ("docs/m3l.md", "m3l_search", table("bench_m3l_search")),
        ("docs/thresholds.md", "thresholds", table("bench_thresholds")),
        ("docs/decisions.md", "aims", table("bench_aims")),
        ("docs/decisions.md", "calibration", table("bench_calibration")),
        ("docs/guarantees.md", "guarantees", table("bench_guarantees")),
        ("docs/audit.md", "audit", table("bench_audit")),
        ("docs/structured.md", "scene", table("bench_scene")),
        ("docs/structured.md", "passes", table("bench_cgm_passes")),
        ("docs/structured.md", "structured_speed", table("bench_structured_speed")),
        ("docs/structured.md", "stack", table("bench_stack")),
        ("docs/rank.md", "rank_tables", table("bench_rank_tables")),
        ("docs/rank.md", "rank_growth", table("bench_rank_growth")),
        ("docs/lsg21.md", "lsg21_scene", table("bench_lsg21_scene")),
        ("docs/prml.md", "prml_tables", table("bench_prml_tables")),
        ("docs/prml.md", "prml_rank", table("bench_prml_rank")),
        ("docs/prml.md", "prml_literal", table("bench_prml_literal")),
        ("docs/which_model.md", "models", table("bench_models")),
        ("docs/unknown_labels.md", "unknown", table("bench_unknown")),
        ("docs/which_model.md", "models_sparse", table("bench_models_sparse")),
        ("docs/which_model.md", "published", table("bench_published")),
    ):
        path = ROOT / page
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        path.write_text(marked.sub(lambda m, text=text: m[1] + text + m[2], path.read_text()))


if __name__ == "__main__":
    update_pages()
