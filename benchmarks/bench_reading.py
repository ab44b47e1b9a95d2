"""Reading files: `comargin.data.read` against liac-arff (dense and sparse ARFF) and scikit-learn (LIBSVM multi-label).

liac-arff ends with Python lists; turning them into arrays, which ours has done by then, is a row of its own.
Run: python benchmarks/bench_reading.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import arff
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from _common import Row, best_of, compared, show
from comargin.data import Dataset, read, write

TITLE = "Reading files"
N_ROWS, N_FEATURES, N_LABELS = 43907, 120, 101  # mediamill


def make_dense(folder: Path) -> Path:
    """Write a dense ARFF file of mediamill's shape; six decimals, as published files have."""
    rng = np.random.default_rng(0)
    X = np.round(rng.random((N_ROWS, N_FEATURES)), 6)
    Y = (rng.random((N_ROWS, N_LABELS)) < 0.043).astype(np.int8)
    names = tuple(f"Att{j}" for j in range(N_FEATURES)), tuple(f"Class{j}" for j in range(N_LABELS))
    return write(Dataset(X, Y, *names, "mediamill_shape"), folder / "mediamill_shape.arff")[0]


def read_liac(path: Path, sparse: bool) -> Any:
    """Read with liac-arff, to its fastest representation."""
    with path.open() as file:
        return arff.load(file, return_type=arff.LOD if sparse else arff.DENSE)


def read_liac_arrays(path: Path, sparse: bool) -> Any:
    """Read with liac-arff, to an array or a CSR matrix of all attributes."""
    with path.open() as file:
        if not sparse:
            return np.array(arff.load(file)["data"], dtype=np.float64)
        values, rows, columns = arff.load(file, return_type=arff.COO)["data"]
    return sp.csr_array((np.array(values, dtype=np.float64), (rows, columns)))


def compare_arff(work: str, path: Path, sparse: bool) -> list[Row]:
    ours = best_of(3, lambda: read(path))
    return [
        compared(work, ours, peer, best_of(1, lambda run=run: run(path, sparse)))
        for peer, run in (("liac-arff, lists", read_liac), ("liac-arff, arrays", read_liac_arrays))
    ]


def main() -> list[Row]:
    """Time all readers and return one record per comparison."""
    home = os.environ.get("COMARGIN_DATA")
    tmc = Path(home) / "tmc2007-500" / "tmc2007-500.arff" if home else None
    with tempfile.TemporaryDirectory() as folder:
        dense = make_dense(Path(folder))
        rows = compare_arff(f"dense ARFF {N_ROWS} x {N_FEATURES} + {N_LABELS} labels", dense, False)
        if tmc is not None and tmc.is_file():
            rows += compare_arff("sparse ARFF tmc2007-500 (28596 x 500 + 22 labels)", tmc, True)
            libsvm = write(read(tmc), Path(folder, "tmc.svm"))[0]
            ours = best_of(3, lambda: read(libsvm))
            peer = best_of(3, lambda: load_svmlight_file(str(libsvm), multilabel=True))
            rows.append(compared("LIBSVM tmc2007-500", ours, "load_svmlight_file", peer))
    return rows


if __name__ == "__main__":
    show(TITLE, main())
