"""Run every benchmark of this folder, print its table, and write all rows to benchmarks/results.json.

Nothing else should run on the machine. Run: make bench
"""

from __future__ import annotations

import importlib
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

from _common import show

HERE = Path(__file__).parent
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "comargin")


def main() -> None:
    results = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    for path in sorted(HERE.glob("bench_*.py")):
        module = importlib.import_module(path.stem)
        rows = module.main()
        show(module.TITLE, rows)
        results[path.stem] = rows
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
