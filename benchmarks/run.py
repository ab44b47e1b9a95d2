"""Run every benchmark of this folder, or those named, and print the tables.

The rows go to benchmarks/results.json, and from there into the README and the guides. Nothing else should run
on the machine. Run: make bench, or python benchmarks/run.py bench_reading bench_splits
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from _common import show
from summary import update_pages

HERE = Path(__file__).parent
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "comargin")


def main() -> None:
    names = sys.argv[1:] or [path.stem for path in sorted(HERE.glob("bench_*.py"))]
    file = HERE / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results |= {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    for name in names:
        module = importlib.import_module(name)
        rows = module.main()
        show(module.TITLE, rows)
        results[name] = rows
        file.write_text(json.dumps(results, indent=1) + "\n")
    update_pages()


if __name__ == "__main__":
    main()
