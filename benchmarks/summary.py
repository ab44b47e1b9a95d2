"""Tables of results.json as Markdown: the README's and the thresholds guide's. Run: python benchmarks/summary.py"""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = json.loads(Path(__file__).with_name("results.json").read_text())


def speed() -> str:
    """All comparisons of time."""
    lines = ["| work | ours | peer | theirs | ratio |", "|---|---|---|---|---|"]
    for name, rows in RESULTS.items():
        for row in rows if name.startswith("bench_") else ():
            if "ratio" in row:
                ours, theirs = f"{row['ours_s']:.3g} s", f"{row['peer_s']:.3g} s"
                lines.append(f"| {row['work']} | {ours} | {row['peer']} | {theirs} | {row['ratio']:.1f} |")
    return "\n".join(lines) + "\n"


def thresholds() -> str:
    """Micro- and macro-F1 of the threshold rules."""
    rows = RESULTS["bench_thresholds"]
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(speed(), thresholds(), sep="\n", end="")
