"""A new learner in a few dozen lines: ridge regression on the labels, with the whole estimator contract.

Everything but the mathematics comes from the base class: parameter checks, dense and sparse input, 1-D and indicator
targets, sample weights, the certificate, warm-start checks, warnings, prediction in the caller's form.

    P(W) = 1/2 sum_i c_i ||x_i W - t_i||^2 + alpha/2 ||W||^2,     t_i in {-1, 1}
    D(A) = <A, T> - 1/2 sum_i ||a_i||^2 / c_i - 1/(2 alpha) ||X^T A||^2,     a_i = c_i (t_i - x_i W) at the optimum

Run: python examples/own_learner.py
"""

import time
from numbers import Real

import numpy as np

import comargin
from comargin.core import Checkpoint, Interval, LinearMultilabelClassifier, Result, Status
from comargin.models import ModelRecipe, register_model


class RidgeLabels(LinearMultilabelClassifier):
    alpha: float = 1.0
    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="neither")]}  # noqa: RUF012

    def _solve(self, data, start, control):
        began = time.perf_counter()
        X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
        T, c = 2.0 * data.Y - 1.0, data.sample_weight[:, None]
        W = np.linalg.solve(X.T @ (c * X) + self.alpha * np.eye(X.shape[1]), X.T @ (c * T))
        residual = T - X @ W
        A = c * residual
        primal = 0.5 * np.sum(c * residual**2) + 0.5 * self.alpha * np.sum(W**2)
        dual = np.sum(A * T) - 0.5 * np.sum(A * residual) - 0.5 / self.alpha * np.sum((X.T @ A) ** 2)
        point = Checkpoint(1, time.perf_counter() - began, float(primal), float(dual))
        result = Result(W.T, A, (point,), self.tol * float(primal), Status.CONVERGED)
        return result, self._linear_attributes(result.coef)


# One declaration makes it a model that can be trained, compared and saved by its name. A package gives it in an entry
# point of the group "comargin.models"; in a script it is registered by hand.
RIDGE = ModelRecipe(
    "ridge",
    RidgeLabels(),
    grid=(("alpha", (0.1, 1.0, 10.0, 100.0)),),
    learn_cuts=True,
    description="ridge regression on the labels",
    saved={"coef_": "matrix", "intercept_": "vector"},
)


if __name__ == "__main__":
    import tempfile

    from comargin.comparison import compare
    from comargin.data import load
    from comargin.metrics import evaluate

    train, test = load("digits", split="train"), load("digits", split="test")
    model = RidgeLabels(alpha=10.0).fit(train.X, train.Y)
    measures = evaluate(test.Y, model.decision_function(test.X), model.predict(test.X))
    print(f"objective {model.objective_:.4f}, gap {model.duality_gap_:.1e}")
    print(f"Hamming loss {measures['hamming_loss']:.4f}, micro-F1 {measures['micro_f1']:.4f}")

    register_model(RIDGE)
    tagger = comargin.training.train(train, "ridge")
    with tempfile.TemporaryDirectory() as folder:
        again = comargin.training.Tagger.load(tagger.save(f"{folder}/ridge.cmg"))
    changed = (again.predict(test.X) != tagger.predict(test.X)).sum()
    print(f"alpha {tagger.facts['searched']['alpha']:g}; loaded from its file, it predicts {changed} labels otherwise")
    found = compare(train, ["ridge", "ovr"], folds=2, measures=["hamming_loss"], tune=False)
    ridge, ovr = found.table("hamming_loss").mean[0]
    print(f"Hamming loss on two folds: ridge {ridge:.4f}, one-vs-rest logistic regression {ovr:.4f}")
