"""CGM on scene, five folds with alpha chosen inside every training part: the paper prints 0.094 / 0.708 / 0.703."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bench_scene():
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import bench_scene
    finally:
        sys.path.remove(folder)
    return bench_scene


def test_scene(data_home, bench_scene):
    none, cgm = (bench_scene.cross_validated(method) for method in ("no edges", "CGM"))
    print(none, cgm)
    assert float(cgm["Hamming loss"]) <= 0.100
    assert float(cgm["macro-F1"]) >= 0.70
    assert float(cgm["micro-F1"]) >= 0.69
    assert float(cgm["Hamming loss"]) < float(none["Hamming loss"])
    assert float(cgm["macro-F1"]) > float(none["macro-F1"])
    assert float(cgm["micro-F1"]) > float(none["micro-F1"])
