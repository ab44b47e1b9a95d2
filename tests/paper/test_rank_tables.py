"""Rank-CVM and Rank-SVM with the paper's parameters, beside the measures it prints."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tables():
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import bench_rank_tables
    finally:
        sys.path.remove(folder)
    return bench_rank_tables


# Ranking loss at most, average precision at least.
ASKED = {"emotions": (0.155, 0.80), "scene": (0.068, 0.88), "yeast": (0.165, 0.76)}


@pytest.mark.parametrize("method", ["Rank-CVM", "Rank-SVM"])
@pytest.mark.parametrize("name", ["emotions", "scene", "plant", "genbase", "yeast"])
def test_measures(data_home, tables, name, method):
    ours, printed = tables.measures(name, method), tables.SETTINGS[name, method].printed
    print(f"\n{name} {method}: " + "  ".join(f"{a:.4f} ({b:.4f})" for a, b in zip(ours, printed, strict=True)))
    if method == "Rank-CVM" and name in ASKED:
        loss, precision = ASKED[name]
        assert ours[3] <= loss
        assert ours[2] >= precision
    else:
        # Another random split of plant, labels without a positive in genbase's training part, and the paper's Rank-SVM
        # stopped early: near what is printed.
        near = 0.01 if method == "Rank-CVM" else 0.06
        assert ours[3] <= printed[3] + near
        assert ours[2] >= printed[2] - near
