"""LSG21 on scene as in the paper, beside the measures it prints."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["LSG21, f >= 0.5", "LSG21, tuned cut"])
def test_measures(method, data_home):
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import bench_lsg21_scene
    finally:
        sys.path.remove(folder)
    _, macro_f1, _, micro_f1 = bench_lsg21_scene.measures(method, "rows of length 1")
    print(f"\n{method}: macro-F1 {macro_f1:.4f} (0.6748)  micro-F1 {micro_f1:.4f} (0.6821)")
    assert macro_f1 >= 0.65
    assert micro_f1 >= 0.66
