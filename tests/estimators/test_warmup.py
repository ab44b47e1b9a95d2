"""After the warm-up no fit compiles anything."""

import os
import subprocess
import sys

import pytest

CODE = """
import numpy as np, scipy.sparse as sp
import comargin
from comargin.kernels import _m3l, _m3l_pairs

comargin.warmup()
epochs = [_m3l.m3l_diagonal_epoch, _m3l.m3l_coupled_epoch, _m3l.m3l_factor_epoch, _m3l.m3l_sums, _m3l.m3l_dual_average]
epochs.append(_m3l_pairs.m3l_pair_visits)
before = [len(kernel.signatures) for kernel in epochs]
X, Y = np.eye(6), np.eye(6, dtype=int)
for features in (X, sp.csr_array(X)):
    for prior in (None, np.eye(6) + 0.2, np.ones((6, 6)), "train"):
        comargin.M3LClassifier(label_correlation=prior, random_state=0).fit(features, Y)
        comargin.M3LClassifier(label_correlation=prior, random_state=0, tol=1e-7).fit(features, Y)
        comargin.M3LClassifier(kernel="rbf", label_correlation=prior).fit(features, Y)
assert [len(kernel.signatures) for kernel in epochs] == before, before
print(before)
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_warmup_compiles_everything():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[4, 6, 2, 2, 2, 2]"
