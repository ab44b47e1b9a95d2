"""Digits never seen in training, recognised by the segments of a display.

A classifier learns the seven segments from seven digits and has to tell the other three apart, which it knows by their
segments only. All 120 choices of the three; the constant prediction, made from the same knowledge and without a look
at the image, stands beside the learned ones.

    python examples/zero_shot_digits.py
"""

import itertools

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from comargin import M3LClassifier, ZeroShotClassifier
from comargin.data import load
from comargin.metrics import hamming_loss

digits = load("digits")
X, y, signatures = digits.X, digits.extra["y"], digits.extra["signatures"]
rng = np.random.default_rng(0)
base = make_pipeline(Normalizer(), M3LClassifier(C=0.05, fit_intercept=False, random_state=0))

rows = {"constant": [], "R = I": [], "R of the unseen digits": []}
for unseen in itertools.combinations(range(10), 3):
    new = np.isin(y, unseen)
    train = rng.choice(np.flatnonzero(~new), size=200, replace=False)
    truth = signatures[y[new]]
    for name, choice in (("R = I", "estimator"), ("R of the unseen digits", "signatures")):
        model = ZeroShotClassifier(base, signatures[list(unseen)], class_names=unseen, label_correlation=choice)
        model.fit(X[train], signatures[y[train]])
        rows[name].append([hamming_loss(truth, model.predict_attributes(X[new])), model.score(X[new], y[new])])
    constant = np.tile(model.constant_attributes_, (len(truth), 1))
    rows["constant"].append([hamming_loss(truth, constant), 1 / 3])  # a class at random

print(f"{'':24}{'wrong segments':>16}{'digits found':>14}")
for name, figures in rows.items():
    wrong, found = np.mean(figures, axis=0)
    print(f"{name:24}{wrong:16.1%}{found:14.1%}")

print(f"\nThe last three, {unseen}, with R: how often a digit (row) was taken for which (column)")
print(f"{'':6}" + "".join(f"{guess:6}" for guess in model.classes_))
for true in unseen:
    predicted = model.predict(X[y == true])
    print(f"{true:6}" + "".join(f"{np.sum(predicted == guess):6}" for guess in model.classes_))
