"""M3L: max-margin multi-label classification (Hariharan, Vishwanathan and Varma, 2012)."""

from collections.abc import Callable
from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ..core.estimator import Interval, LinearMultilabelClassifier, StrOptions
from ..core.gram import GramCache
from ..core.kernel_functions import KernelMultilabelClassifier, kernel_function
from ..core.loop import Control
from ..core.result import Result
from ..core.row_blocks import squared_lengths
from ..core.validation import TrainingData, loop_view
from ..graphs import LabelGraph, smoothed_correlation
from .dcd_solver import solve_m3l_dcd
from .kernel_solver import certified_weights, solve_m3l_kernel, solve_m3l_kernel_by_newton
from .losses import HINGE, LOGISTIC, SQUARED_HINGE
from .prior import PriorPart, identity_prior, split_prior
from .problem import M3LKernelProblem, M3LProblem
from .solver import label_blocks, solve_m3l

_LOSSES = {"hinge": HINGE, "hamming": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC, "correlated": HINGE}


class M3LClassifier(KernelMultilabelClassifier, LinearMultilabelClassifier):
    r"""Max-margin multi-label classifier with correlated labels, linear or kernel, solved to a certified optimum.

    Minimises, over weights :math:`z_l` of every label (the columns of Z),

    .. math:: P(Z) = \tfrac12 \operatorname{tr}(Z R^{-1} Z^\top)
        + 2 C \sum_{il} c_{il}\, \phi(s_{il}\, z_l^\top x_i)

    with :math:`s_{il} \in \{-1, 1\}` the sign of label l in row i, :math:`c_{il}` the product of its sample and class
    weight, and R a prior correlation of the labels. All labels of a row are solved together, so that X is read once for
    all of them.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error. Without label correlation, a one-vs-rest hinge-loss SVM with cost C' is the same problem with
        C = C' / 2.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        Replaces :math:`x_i^\top x_j`. "precomputed" takes kernel matrices for X: those of the training
        rows in ``fit``, of new rows with all training rows in ``predict``. A callable gets two matrices of rows and
        returns the kernel values of all pairs; with ``n_jobs`` > 1 it is called from several threads.
    {gamma} {degree} {coef0}
    label_correlation : None, "train", array-like or LabelGraph of shape (n_labels, n_labels), default=None
        R, symmetric and positive semi-definite; it may be singular, as that of
        :func:`comargin.graphs.correlation_from_classes` is. None is the identity, independent labels. "train" is
        :func:`comargin.graphs.smoothed_correlation` of the training labels.
    loss : {"hinge", "squared_hinge", "logistic", "correlated"}, default="hinge"
        :math:`\phi` of the margins :math:`m = s_{il}\, z_l^\top x_i`: :math:`\max(0, 1 - m)`, its square, or
        :math:`\log(1 + e^{-m})`. "correlated" is the hinge :math:`\max(0, t_{il} - m)` with :math:`t_{il} = s_{il} (R
        s_i)_l`, so that a mistake costs more where correlated labels agree; R must be diagonally dominant. "hamming"
        is another name of "hinge".
    {fit_intercept}
        With a kernel, in its feature space: the square of the feature is added to every kernel value.
    intercept_scaling : float or "auto", default=1.0
        The value of the constant feature: the penalty of ``intercept_`` falls with its square. "auto" is the root of
        the mean :math:`k(x_i, x_i)`, as long as a row: features that are all scaled by a then have the same optimum at
        C / a^2. With 1 the intercepts of dense rows are held back, which costs rankings if C is small.
    {class_weight}
    solver : {"auto", "dcd", "smo"}, default="auto"
        "auto" is the fastest: all labels of a row together (linear), or pairs of variables over one kernel matrix for
        all labels. The paper's own schemes stay for comparison: "dcd" (linear, single dual variables, several along a
        label; badly scaled data may need very many passes) and "smo" (kernels, "linear" too: always the label of the
        worst variable).
    cache_size : float, default=1000
        Megabytes of memory for rows of the kernel matrix, shared by all labels and threads.
    {tol}
    max_iter : int, default=1000
        Most passes over the rows (kernels: over the labels); a ``ConvergenceWarning`` says when they do not suffice.
    n_jobs : int, default=None
        Threads, over blocks of labels: components of the label correlation, and independent labels, up to 80 at a time
        (linear) or one by one (kernels). The result is the same for any number.
    {random_state} {verbose} {callback} {warm_start}

    Attributes
    ----------
    {coef_}
    support_ : int ndarray of shape (n_support,)
        Training rows that scores depend on (kernels only, as the next two).
    {support_vectors_}
    dual_coef_ : ndarray of shape (n_labels, n_support)
        Their coefficients: scores are kernel values with the support rows times ``dual_coef_.T``, plus ``intercept_``.
    {intercept_} {objective_} {history_}
    n_iter_ : int
        Passes done.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    A pass costs O(nnz(X) n_labels) with contiguous memory access, for any R; a label that moves costs O(n_labels) more
    when R is dense, its number of neighbours when R is sparse, and with R of rank k the pass costs O(nnz(X) k +
    n_samples n_labels k). Connected components of R are solved on their own. Beside X the solver holds the dual
    variables (n_samples x n_labels), the active sets and the weights.

    With kernels a step costs O(n_samples) over rows of the kernel matrix that all labels share, and coupled labels
    O(n_samples n_labels) more for every 256 steps; memory is ``cache_size`` and 28 n_samples n_labels bytes.

    References
    ----------
    Hariharan, Vishwanathan, Varma: Efficient max-margin multi-label classification with applications to zero-shot
    learning. Machine Learning 88 (2012), doi:10.1007/s10994-012-5291-x.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> Y = [[0, 1], [1, 0], [1, 1], [0, 0]]
    >>> model = M3LClassifier(C=10.0, random_state=0).fit(X, Y)
    >>> model.predict([[0.9, 0.1]])
    array([[1, 0]])
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    C: float = field(default=1.0, kw_only=False)
    label_correlation: Any = None
    loss: str = "hinge"
    intercept_scaling: Any = 1.0
    class_weight: str | dict[Any, float] | list[dict[int, float]] | None = None
    solver: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "dcd", "smo"})],
        "label_correlation": [None, StrOptions({"train"}), "array-like", "sparse matrix", LabelGraph],
        "loss": [StrOptions({*_LOSSES})],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    _takes_unknown = True
    _advice = "Increase max_iter or tol, scale X, or lower C."

    def _prepare(
        self, data: TrainingData
    ) -> Callable[[float, np.ndarray | None, Control], tuple[Result, dict[str, Any]]]:
        """Prepare everything that does not depend on C; returns a function of C, a dual start and a control."""
        if self.solver == "dcd" and self.kernel != "linear":
            raise ValueError(f'solver="dcd" needs kernel="linear", got kernel={self.kernel!r}; use "smo" or "auto"')
        loss = _LOSSES[self.loss]
        if not loss.is_quadratic and self.solver != "auto":
            raise ValueError(
                f'loss="{self.loss}" needs solver="auto"; solver="{self.solver}" takes the hinge and its square only'
            )
        row_weight, label_weight = self._weights(data)
        S = data.signs
        prior = self._prior(data)
        targets, n_threads = self._targets_of(S, prior), self._n_threads()
        if self._in_feature_space():
            linear = M3LProblem(data.X, S, row_weight, label_weight, prior, targets, loss)
            view = loop_view(data.X)
            seeds = self._seeds(1 if self.solver == "dcd" else len(label_blocks(prior)))

            def solve_linear(C: float, start: np.ndarray | None, control: Control) -> tuple[Result, dict[str, Any]]:
                problem = replace(linear, row_cost=C * row_weight)
                if self.solver == "dcd":
                    result = solve_m3l_dcd(problem, view, control, seed=seeds[0], start=start)
                else:
                    result = solve_m3l(problem, view, control, seeds=seeds, n_threads=n_threads, start=start)
                return result, self._linear_attributes(result.coef, float(data.X[0, -1]))

            return solve_linear

        function = kernel_function(self.kernel, self.gamma, self.degree, self.coef0, data.X)
        gram = function.gram(data.X, constant=0.0)
        constant = self._intercept_feature(gram.diagonal, data) ** 2
        gram = replace(gram, diagonal=gram.diagonal + constant, constant=constant)
        cache = GramCache(gram, self.cache_size)
        dual = M3LKernelProblem(gram, S, row_weight, label_weight, prior, targets, loss)
        scheme = "smo" if self.solver == "smo" else "pairs"

        def solve_kernel(C: float, start: np.ndarray | None, control: Control) -> tuple[Result, dict[str, Any]]:
            problem = replace(dual, row_cost=C * row_weight)
            if loss.is_quadratic:
                result = solve_m3l_kernel(problem, cache, control, n_threads=n_threads, start=start, scheme=scheme)
            else:
                result = solve_m3l_kernel_by_newton(problem, cache, control, n_threads=n_threads, start=start)
            intercept = constant * result.coef.sum(axis=1)
            attributes = self._kernel_attributes(function, data.X, result.coef, intercept)
            if "coef_" in attributes:
                weights = certified_weights(problem, data.X, result, control.tol)
                result, attributes["coef_"], attributes["intercept_"] = weights
            return result, attributes

        return solve_kernel

    def _in_feature_space(self) -> bool:
        """Whether the solver learns weights of the features, not dual coefficients."""
        return isinstance(self.kernel, str) and self.kernel == "linear" and self.solver != "smo"

    def _constant_feature(self, data: TrainingData) -> float:
        return self._intercept_feature(squared_lengths(data.X), data) if self._in_feature_space() else 0.0

    def _intercept_feature(self, lengths: np.ndarray, data: TrainingData) -> float:
        """The constant feature of the intercept, from the squared lengths of the rows; 0 for none."""
        if not self.fit_intercept or self.intercept_scaling != "auto":
            return float(self.fit_intercept and self.intercept_scaling)
        return float(np.sqrt(np.average(lengths, weights=data.sample_weight))) or 1.0

    def _prior(self, data: TrainingData) -> tuple[PriorPart, ...]:
        """R, checked and split into the parts that are solved on their own."""
        R, n_labels = self.label_correlation, data.Y.shape[1]
        if R is None:
            return identity_prior(n_labels)
        if isinstance(R, str):
            R = smoothed_correlation(data.labels)
        return split_prior(R, n_labels)

    def _targets_of(self, S: np.ndarray, prior: tuple[PriorPart, ...]) -> np.ndarray:
        """Margins asked for: (0, 0) stands for that of the loss."""
        if self.loss != "correlated":
            return np.empty((0, 0))
        targets = np.empty(S.shape)
        for part in prior:
            R = part.to_array()
            lack = 2.0 * np.abs(np.diag(R)) - np.abs(R).sum(axis=1)
            if lack.min() < -1e-10 * np.abs(R).max():
                label = part.labels[int(np.argmin(lack))]
                raise ValueError(
                    f'loss="correlated" needs a diagonally dominant label_correlation; in row {label} the other '
                    f"entries exceed the diagonal by {-lack.min():.3g}"
                )
            signs = S[:, part.labels]
            targets[:, part.labels] = signs * part.apply(signs.astype(np.float64))
        return np.maximum(targets, 0.0)
