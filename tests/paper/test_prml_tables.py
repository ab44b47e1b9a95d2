"""PrBR and PrML on random halves as in the paper, beside the measures it prints."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
PARAMETERS = {  # C, gamma2: those that validation chooses in benchmarks/bench_prml_tables.py
    ("yeast", "PrBR"): (20.0, 2.0),
    ("yeast", "PrML"): (20.0, 0.1),
    ("enron", "PrBR"): (0.01, 0.1),
    ("enron", "PrML"): (0.01, 0.1),
}


@pytest.mark.parametrize(("name", "method"), PARAMETERS)
def test_measures(name, method, data_home):
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import bench_prml_tables as tables
    finally:
        sys.path.remove(folder)
    C, gamma2 = PARAMETERS[name, method]
    model, halves = tables.learner(method, C, gamma2, 1e-3), range(10 if method == "PrBR" else 1)
    found = np.mean([tables.measures(model, *tables.halves(name, number)) for number in halves], axis=0)
    printed = tables.PRINTED[name, method]
    print(f"\n{name} {method}: " + "  ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(found, printed, strict=True)))
    ranking_loss, precision = found[3], found[4]
    if method == "PrBR":
        assert abs(ranking_loss - printed[3]) <= 0.03
        assert abs(precision - printed[4]) <= 0.03
    else:  # the printed values are not those of the printed problem: see docs/prml.md
        assert ranking_loss > printed[3]
        assert precision < printed[4]
