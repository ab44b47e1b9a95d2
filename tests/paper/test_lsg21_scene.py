"""LSG21 on scene as in the paper, beside the measures it prints."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_measures(data_home):
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import bench_lsg21_scene
    finally:
        sys.path.remove(folder)
    _, macro_f1, _, micro_f1 = bench_lsg21_scene.measures("LSG21, tuned cut")
    print(f"\nmacro-F1 {macro_f1:.4f} (0.6748)  micro-F1 {micro_f1:.4f} (0.6821)")
    assert macro_f1 >= 0.65
    assert micro_f1 >= 0.66
