"""When is a label on? The same scores, seven ways to cut them.

A one-vs-rest classifier scores the labels of every row; `ThresholdClassifierCV` learns from out-of-fold scores
where to cut them. Three of the twelve labels are rare and hard to find: fitting a plain F1 cut to each label
costs micro-F1, the guarded cuts do not.

    python examples/choose_thresholds.py
"""

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier

from comargin.decisions import PerLabelCut, ThresholdClassifierCV
from comargin.metrics import hamming_loss, macro_f1, micro_f1

X, Y = make_multilabel_classification(
    n_samples=1500, n_features=30, n_classes=12, n_labels=3, length=30, random_state=0
)
rng = np.random.default_rng(0)
Y[:, :3] *= rng.random((len(Y), 3)) < 0.06  # three labels are rare and hard to find
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.4, random_state=0)

base = OneVsRestClassifier(LogisticRegression(C=0.1, max_iter=1000))
models = {
    "scores > 0, as it comes": base,
    "one cut for all": ThresholdClassifierCV(base, rule="global"),
    "plain F1 cut per label": ThresholdClassifierCV(base, rule=PerLabelCut(micro_weight=0, shrinkage=0)),
    "guarded F1 cuts (default)": ThresholdClassifierCV(base),
    "as often as true": ThresholdClassifierCV(base, rule="proportional"),
    "k best labels": ThresholdClassifierCV(base, rule="top-k"),
    "Rank-SVM's regression": ThresholdClassifierCV(base, rule="rank-svm"),
}

print(f"{'':26}{'micro-F1':>9}{'macro-F1':>9}{'Hamming':>9}{'labels per row':>16}")
for name, model in models.items():
    predicted = model.fit(X_train, Y_train).predict(X_test)
    print(
        f"{name:26}{micro_f1(Y_test, predicted):9.3f}{macro_f1(Y_test, predicted):9.3f}"
        f"{hamming_loss(Y_test, predicted):9.3f}{predicted.sum(axis=1).mean():16.2f}"
    )
print(f"{'truth':26}{'':27}{Y_test.sum(axis=1).mean():16.2f}")

cuts = models["guarded F1 cuts (default)"].thresholds_
print(
    "\ncuts learned for the three rare labels:",
    np.round(cuts[:3], 2),
    "and the others:",
    np.round(cuts[3:], 2),
)
