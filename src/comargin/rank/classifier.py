"""Base of the learners that rank labels: rows with pairs, kernel, and the rule from rankings to label sets."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.estimator import Interval
from ..core.explanation import Explanation
from ..core.gram import Gram
from ..core.kernel_functions import KernelFunction, KernelMultilabelClassifier, kernel_function
from ..core.loop import Control
from ..core.result import Result
from ..core.threads import worker_threads
from ..core.validation import Matrix, TrainingData
from ._products import GramProducts, KernelProducts, LinearProducts
from .label_sets import RankSVMCut
from .problem import RankProblem, rows_with_pairs


@dataclass(frozen=True)
class RankStart:
    """Start of a warm-started fit: the dual solution, and the shape of the indicator."""

    dual: Any
    shape: tuple[int, ...]


_Solve = Callable[[float, RankStart | None, Control], tuple[Result, dict[str, Any]]]


class RankClassifier(KernelMultilabelClassifier):
    r"""Base of `RankCVMClassifier` and `RankSVMClassifier`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of the shortfalls.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        For "precomputed" X is the kernel matrix of the training rows (in ``predict`` the kernel values of the new rows
        with the training rows). A callable takes two matrices of rows and returns the kernel values of all pairs.
        "linear" learns weights of the features; no kernel matrix is formed.
    cache_size : float, default=1000
        Megabytes of memory for the kernel matrix; what does not fit is computed again for every product with it.
    n_jobs : int, default=None
        Threads, over blocks of rows. The result is the same for any number.

    Attributes
    ----------
    n_support_ : int
        How many.
    dual_coef_ : ndarray of shape (n_labels, n_support)
        :math:`\beta`: ``rank_scores`` are kernel values with the support rows times ``dual_coef_.T``, plus
        ``intercept_``.
    threshold_ : RankSVMCut
        The rule that makes label sets; not for a 1-D y, where the highest score wins.
    n_skipped_ : int
        Rows with no or all (known) labels on, which have nothing to rank. (The threshold rule learns from them too.)
    """

    C: float = field(default=1.0, kw_only=False)
    kernel: str | Callable[[Any, Any], Any] = "rbf"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"C": [Interval(Real, 0, None, closed="neither")]}
    _takes_unknown = True
    _advice = "Increase max_iter or tol, scale X, or lower C."
    # Added to every kernel value: 1 where the biases are penalised like weights.
    _constant: ClassVar[float]

    @abstractmethod
    def _optimise(
        self, problem: RankProblem, kernel: KernelProducts | Gram, start: Any, control: Control, seed: int
    ) -> tuple[Result, np.ndarray]:
        """Solve; returns the result, its ``coef`` of shape (n_labels, n_rows), and the intercepts."""

    def _row_order(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """The rows in the order in which the solver visits them."""
        return rows

    def _needs_gram(self) -> bool:
        """Whether the solver needs the kernel matrix even of a linear kernel."""
        return False

    def rank_scores(self, X: Any) -> np.ndarray:
        """The scores f(x) of the objective: the higher, the more relevant is a label in its row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a 1-D y of two classes
            ``decision_function`` plus the threshold of the row.
        """
        check_is_fitted(self)
        scores = self._certain(super()._scores, X)
        return scores[:, 0] if self._targets.kind == "binary" else scores

    def _scores(self, X: Any) -> np.ndarray:
        scores = super()._scores(X)
        rule = getattr(self, "threshold_", None)
        return scores if rule is None else rule.margins(scores)

    def _explained(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not hasattr(self, "threshold_"):
            return coef, intercept
        rule = self.threshold_  # f_l - t with t = s.f + s_0
        return coef - rule.coef_ @ coef, intercept - rule.coef_ @ intercept - rule.intercept_

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        found = super()._explanations(X, asked, top, names)
        if not hasattr(self, "threshold_"):
            return found
        # Margins of constant labels have the sign of the constant (-1: not constant).
        sign = np.array([-1, 1, 0])[self.threshold_.constant_]
        return [[one.negated() if one.score * sign[one.label] < 0.0 else one for one in row] for row in found]

    def _prepare(self, data: TrainingData) -> _Solve:
        """Do once everything that does not depend on C; returns the function that solves for a C from a start."""
        two_classes = data.targets.kind == "binary"
        Y = np.hstack([1 - data.Y, data.Y]) if two_classes else data.Y
        seed = self._seeds(1)[0]
        rows = rows_with_pairs(Y, data.sample_weight, data.known)
        if not len(rows):
            raise ValueError(
                f"{type(self).__name__} ranks labels: it needs at least two labels or classes, and rows of positive "
                f"weight where some label is on and another is off. y has {Y.shape[1]} label(s), "
                f"{len(data.targets.classes)} class(es) and no such row"
            )
        n_skipped = int(np.count_nonzero(data.sample_weight > 0.0)) - len(rows)
        rows = self._row_order(rows, seed)
        function = kernel_function(self.kernel, self.gamma, self.degree, self.coef0, data.X)
        center = self._center(data.X[rows])
        kernel = self._kernel_of(function, data.X if center is None else data.X - center, rows)
        weight, known = data.sample_weight[rows], None if data.known is None else data.known[rows]

        def solve(C: float, start: RankStart | None, control: Control) -> tuple[Result, dict[str, Any]]:
            problem = RankProblem.of(Y[rows], weight, C, known)
            dual = None if start is None else self._unpacked(start.dual, rows)

            def packed(state: Any) -> RankStart:
                return RankStart(self._packed(state, rows, problem, Y), data.Y.shape)

            with worker_threads(self._n_threads()) as pool:
                if not isinstance(kernel, Gram):
                    kernel.open(pool)
                result, intercept = self._optimise(problem, kernel, dual, control.packing(packed), seed)
                scores_of_rows = None
                if isinstance(kernel, GramProducts):  # K includes the penalised biases
                    scores_of_rows = kernel.times(result.coef.T) + (0.0 if self._constant else intercept)
            coef = np.zeros((Y.shape[1], len(data.Y)))
            coef[:, rows] = result.coef
            if two_classes:  # scores of the second class minus those of the first
                coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
            attributes = self._kernel_attributes(function, data.X, coef, intercept)
            if center is not None:
                weights = attributes["dual_coef_"] @ (attributes["support_vectors_"] - center)
                attributes |= {"coef_": weights, "intercept_": intercept - weights @ center}
            attributes |= {"n_support_": len(attributes["support_"]), "n_skipped_": n_skipped}
            if data.targets.kind == "indicator":
                scores = self._training_scores(function, data.X, attributes, rows, scores_of_rows)
                attributes["threshold_"] = RankSVMCut().fit(scores, data.labels, sample_weight=data.sample_weight)
            return dataclasses.replace(result, dual_coef=packed(result.dual_coef)), attributes

        return solve

    def _packed(self, dual: Any, rows: np.ndarray, problem: RankProblem, Y: np.ndarray) -> Any:
        """The solver's dual in the order of all rows, for the next warm start."""
        return dual

    def _unpacked(self, dual: Any, rows: np.ndarray) -> Any:
        """The packed dual in the order of ``rows``."""
        return dual

    def _center(self, X: Matrix) -> np.ndarray | None:
        """What is subtracted from the features: free biases absorb it, and features far from zero keep their digits."""
        free = self._constant == 0.0 and isinstance(self.kernel, str) and self.kernel == "linear"
        return X.mean(axis=0) if free and isinstance(X, np.ndarray) else None

    def _kernel_of(self, function: KernelFunction, X: Matrix, rows: np.ndarray) -> KernelProducts | Gram:
        """The kernel matrix of the rows with pairs, in the form that the solver takes."""
        if function.kernel == "linear" and not self._needs_gram():
            return LinearProducts(X[rows], self._constant)
        whole = function.gram(X, constant=self._constant)
        gram = Gram(lambda i, j: whole.function(rows[i], rows[j]), whole.diagonal[rows], whole.constant)
        return gram if self._needs_gram() else GramProducts(gram, self.cache_size)

    @staticmethod
    def _training_scores(
        function: KernelFunction, X: Matrix, attributes: dict[str, Any], rows: np.ndarray, of_rows: np.ndarray | None
    ) -> np.ndarray:
        """Scores f of all training rows; those of ``rows`` may be there from the solver's kernel matrix."""
        if "coef_" in attributes:
            return np.asarray(X @ attributes["coef_"].T) + attributes["intercept_"]
        scores = np.empty((X.shape[0], len(attributes["intercept_"])))
        others = np.arange(X.shape[0])
        if of_rows is not None:
            scores[rows], others = of_rows, np.setdiff1d(others, rows)
        if len(others):
            support = [attributes[name] for name in ("support_vectors_", "support_", "dual_coef_")]
            scores[others] = function.scores(X[others], *support) + attributes["intercept_"]
        return scores
