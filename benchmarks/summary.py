"""Tables of results.json as Markdown, and into the pages that show them. Run: python benchmarks/summary.py"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def results() -> dict:
    return json.loads((ROOT / "benchmarks" / "results.json").read_text())


def speed() -> str:
    """All comparisons of time."""
    lines = ["| work | ours | first ever | peer | theirs | ratio |", "|---|---|---|---|---|---|"]
    for name, rows in results().items():
        for row in rows if name.startswith("bench_") else ():
            if "ratio" in row:
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
        ("README.md", "speed", speed()),
        ("docs/thresholds.md", "thresholds", table("bench_thresholds")),
        ("docs/structured.md", "scene", table("bench_scene")),
        ("docs/structured.md", "passes", table("bench_cgm_passes")),
        ("docs/rank.md", "rank_tables", table("bench_rank_tables")),
        ("docs/rank.md", "rank_growth", table("bench_rank_growth")),
        ("docs/lsg21.md", "lsg21_scene", table("bench_lsg21_scene")),
        ("docs/prml.md", "prml_tables", table("bench_prml_tables")),
    ):
        path = ROOT / page
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        path.write_text(marked.sub(lambda m, text=text: m[1] + text + m[2], path.read_text()))


if __name__ == "__main__":
    update_pages()
