"""Structure on top of a forest and an rbf M3L, against these, their blend, and aims on the blend.

Each half of a set learns and the other is measured; cells are subset accuracy / Hamming loss, the mean of both halves.
Needs COMARGIN_DATA. Run: python benchmarks/bench_stack.py [SET ...]
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import M3LClassifier, StackedStructureClassifier
from comargin.data import load
from comargin.metrics import hamming_loss, subset_accuracy
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "Structure on top of a forest and an rbf M3L: subset accuracy / Hamming loss"
SETS = ("emotions", "flags", "enron", "scene", "yeast")


def members() -> list[Any]:
    forest = RandomForestClassifier(200, random_state=0)
    return [forest, M3LClassifier(3.0, kernel="rbf", tol=1e-2, random_state=0)]


def stack(alpha: Any) -> StackedStructureClassifier:
    return StackedStructureClassifier(members(), alpha=alpha, random_state=0)


def label_sets(X: Any, Y: Any, X_test: Any) -> Iterator[tuple[str, Any]]:
    """Predictions of every model, by its name."""
    blend, corrected = stack(np.inf).fit(X, Y), stack("auto").fit(X, Y)
    yield "forest", blend.estimators_[0].predict(X_test)
    yield "rbf M3L", blend.estimators_[1].predict(X_test)
    for name, model in (("blend", blend), ("correction", corrected)):
        yield name, model.predict(X_test)
        yield f"{name}, aim Hamming", model.predict(X_test, aim="hamming_loss")
        yield f"{name}, aim subset", model.predict(X_test, aim="subset_accuracy")


def main(names: list[str] | None = None) -> list[Row]:
    rows = []
    for name in names or SETS:
        data = load(name)
        X, Y = data.X.toarray() if sp.issparse(data.X) else np.asarray(data.X), data.Y
        Y = np.asarray(Y.toarray() if sp.issparse(Y) else Y)
        found: dict[str, list[tuple[float, float]]] = {}
        for train, test in MultilabelStratifiedKFold(2, shuffle=True, random_state=0).split(X, Y):
            scaler = StandardScaler().fit(X[train])
            for model, on in label_sets(scaler.transform(X[train]), Y[train], scaler.transform(X[test])):
                found.setdefault(model, []).append((subset_accuracy(Y[test], on), hamming_loss(Y[test], on)))
        cells = {model: "{:.3f} / {:.3f}".format(*np.mean(values, axis=0)) for model, values in found.items()}
        rows.append({"set": name} | cells)
    return rows


if __name__ == "__main__":
    show(TITLE, main(sys.argv[1:]))
