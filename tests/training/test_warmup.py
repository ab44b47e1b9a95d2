"""After the warm-up no fit compiles anything."""

import os
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from comargin.training._warmup import _n_compiled

CODE = """
import numpy as np, scipy.sparse as sp
import comargin
from comargin.inference import _loops_elimination as _elimination
from comargin.lsg21 import _loops_edges as _edges
from comargin.m3l import _loops as _m3l, _loops_pairs as _m3l_pairs
from comargin.rank import _loops as _rank, _loops_fw as _rank_fw, _loops_svm as _rank_svm
from comargin.structured import _loops as _structured, _loops_planes as _planes
from comargin.svmplus import _loops as _prml

steps = []
comargin.warmup(callback=lambda *step: steps.append(step))
assert [done for _, done, _ in steps] == list(range(len(steps))), steps
assert {total for *_, total in steps} == {len(steps)}, steps
assert len({what for what, *_ in steps}) == len(steps), steps
assert comargin.warmup() == 0, "compiled again"
epochs = [_m3l.m3l_diagonal_epoch, _m3l.m3l_coupled_epoch, _m3l.m3l_sums, _m3l.m3l_signed_sum]
epochs.append(_m3l_pairs.m3l_pair_visits)
before = [len(kernel.signatures) for kernel in epochs]
X, Y = np.eye(6), np.eye(6, dtype=int)
for features in (X, sp.csr_array(X)):
    for prior in (None, np.eye(6) + 0.2, np.ones((6, 6)), "train"):
        comargin.M3LClassifier(label_correlation=prior, random_state=0).fit(features, Y)
        comargin.M3LClassifier(label_correlation=prior, random_state=0, tol=1e-7).fit(features, Y)
        comargin.M3LClassifier(kernel="rbf", label_correlation=prior).fit(features, Y)
structured = [f for m in (_structured, _planes, _elimination) for f in vars(m).values()]
structured = {f for f in structured if hasattr(f, "signatures")}
assert [len(f.signatures) for f in structured if not f.__name__.startswith("_")].count(1) >= 12
compiled = {f: len(f.signatures) for f in structured}
for features in (X, sp.csr_array(X)):
    comargin.CGMClassifier(alpha=1e-3, max_cliques=3, random_state=0).fit(features, Y).decision_function(features)
    comargin.StructuredSVMClassifier(alpha=0.1, graph=[(0, 1, 2), (3, 4)], random_state=0).fit(features, Y)
assert {f: len(f.signatures) for f in structured} == compiled, compiled
ranks = {f for m in (_rank, _rank_fw, _rank_svm) for f in vars(m).values() if hasattr(f, "signatures")}
compiled = {f: len(f.signatures) for f in ranks}
assert all(n == 1 for f, n in compiled.items() if f.__name__.startswith("rank_")), compiled  # those Python calls
assert list(compiled.values()).count(1) >= 13, compiled
for features in (X, sp.csr_array(X)):
    for kernel in ("linear", "rbf"):
        for solver in ("auto", "cd", "fw"):
            model = comargin.RankCVMClassifier(kernel=kernel, solver=solver, tol=0.1, warm_start=True, random_state=0)
            model.fit(features, Y).fit(features, Y)
        model = comargin.RankSVMClassifier(kernel=kernel, warm_start=True).fit(features, Y)
        model.set_params(C=2.0, n_jobs=2).fit(features, Y)
comargin.RankCVMClassifier(solver="fw", tol=0.1, cache_size=1e-4, max_iter=10_000).fit(X, Y)
assert {f: len(f.signatures) for f in ranks} == compiled, compiled
edges = {f for f in vars(_edges).values() if hasattr(f, "signatures")}
compiled = {f: len(f.signatures) for f in edges}
called = {"shrink_row", "edge_descent", "edge_excess", "edge_slope", "edge_curvature", "edge_curvature_diagonal"}
called |= {"edge_penalty", "edge_weights", "conjugate_start", "conjugate_steps"}
assert all(n == 1 for f, n in compiled.items() if f.__name__ in called), compiled
for features in (X, sp.csr_array(X)):
    for options in ({}, {"self_edges": False, "affinity": np.ones((6, 6))}):
        model = comargin.LSG21Classifier(alpha=0.1, tol=1e-3, warm_start=True, **options).fit(features, Y)
        model.set_params(alpha=0.05).fit(features, Y)
    comargin.LSG21Classifier(alpha=0.1, tol=0.1, solver="irls").fit(features, Y)
    comargin.LSG21ClassifierCV(alphas=3, cv=2).fit(np.vstack([X, X]), np.vstack([Y, Y]))
assert {f: len(f.signatures) for f in edges} == compiled, compiled
privileged = {f for m in (_prml,) for f in vars(m).values() if hasattr(f, "signatures")}
compiled = {f: len(f.signatures) for f in privileged}
for features in (X, sp.csr_array(X)):
    for options in ({}, {"n_privileged": 2, "tol": 1e-7}, {"fit_intercept": False, "n_jobs": 2}):
        comargin.PrBRClassifier(random_state=0, **options).fit(features, Y)
        comargin.PrMLClassifier(random_state=0, **options).fit(features, Y)
assert {f: len(f.signatures) for f in privileged} == compiled, compiled
assert [len(kernel.signatures) for kernel in epochs] == before, before
print(before)
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_warmup_compiles_everything():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[4, 6, 2, 2, 2]"


def test_loops_that_were_compiled_are_counted(monkeypatch):
    class Kernel:
        stats = SimpleNamespace(cache_misses=Counter({"dense": 1, "sparse": 1}))

    before, one = _n_compiled(), Kernel()
    module = SimpleNamespace(one=one, the_same=one, plain=len)
    monkeypatch.setitem(sys.modules, "comargin.of_a_test", module)
    assert _n_compiled() == before + 2
