"""Zero-shot labels on digits: what a prior of the unseen classes is worth, with the constant prediction beside it.

200 training rows (of length 1) of seven digits, the other three digits never seen; labels are the seven segments of a
display. R is built from the signatures of the unseen digits, as Hariharan et al. (2012) do on other data. Measured once
with independent solvers: R = I 0.32, R of the unseen classes 0.265 to 0.267, the constant sign(sum_c p_c s_c) 0.208.
The constant knows the same prior and is better.
"""

import itertools

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from comargin import M3LClassifier
from comargin.data import load
from comargin.graphs import correlation_from_classes
from comargin.metrics import hamming_loss


@pytest.mark.slow
def test_prior_of_the_unseen_classes(capsys):
    digits = load("digits")
    X, y, signatures = normalize(digits.X), digits.extra["y"], digits.extra["signatures"]
    rng = np.random.default_rng(0)
    losses = []
    for unseen in itertools.combinations(range(10), 3):
        seen_rows = np.flatnonzero(~np.isin(y, unseen))
        train = rng.choice(seen_rows, size=200, replace=False)
        test = np.flatnonzero(np.isin(y, unseen))
        R = correlation_from_classes(signatures[list(unseen)])
        truth = signatures[y[test]]
        row = []
        for prior in (None, R):
            model = M3LClassifier(C=0.05, label_correlation=prior, fit_intercept=False, random_state=0)
            row.append(hamming_loss(truth, model.fit(X[train], signatures[y[train]]).predict(X[test])))
        constant = (2 * signatures[list(unseen)] - 1).sum(axis=0) > 0
        row.append(hamming_loss(truth, np.tile(constant.astype(int), (len(test), 1))))
        losses.append(row)
    independent, prior, constant = np.mean(losses, axis=0)
    wins = np.mean([row[1] < row[0] for row in losses])
    with capsys.disabled():
        print(
            f"\nHamming loss on unseen digits, 120 triples: R = I {independent:.3f}, R of the unseen {prior:.3f} ",
            end="",
        )
        print(f"(better in {wins:.0%}), constant {constant:.3f}")
    assert independent == pytest.approx(0.32, abs=0.02)
    assert prior == pytest.approx(0.266, abs=0.015)
    assert wins > 0.7
    assert constant == pytest.approx(0.208, abs=0.005)
