"""M3L: max-margin multi-label classification (Hariharan, Vishwanathan and Varma, 2012)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from .._validation import TrainingData, kernel_view, label_weights
from ..graphs import LabelGraph, smoothed_correlation
from ..problems.label_prior import PriorPart, identity_prior, split_prior
from ..problems.m3l import M3LProblem
from ..solvers import Checkpoint, Result
from ..solvers.m3l import label_blocks, solve_m3l
from ._base import Interval, LinearMultilabelClassifier, StrOptions


class M3LClassifier(LinearMultilabelClassifier):
    r"""Max-margin multi-label classifier with correlated labels, linear, solved to a certified optimum.

    Minimises, over weights :math:`z_l` of every label (the columns of Z),

    .. math:: P(Z) = \tfrac12 \operatorname{tr}(Z R^{-1} Z^\top)
        + 2 C \sum_{il} c_{il} \max(0, t_{il} - s_{il}\, z_l^\top x_i)

    with :math:`s_{il} \in \{-1, 1\}` the sign of label l in row i, :math:`c_{il}` the product of its sample and class
    weight, and R a prior correlation of the labels. All labels of a row are solved together, so that X is read once for
    all of them.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error. Without label correlation, a one-vs-rest hinge-loss SVM with cost C' is the same problem with
        C = C' / 2.
    label_correlation : None, "train", array-like or LabelGraph of shape (n_labels, n_labels), default=None
        R, symmetric and positive semi-definite; it may be singular, as that of
        :func:`comargin.graphs.correlation_from_classes` is. None is the identity, independent labels. "train" is
        :func:`comargin.graphs.smoothed_correlation` of the training labels.
    loss : {"hamming", "correlated"}, default="hamming"
        "hamming" asks for the margin :math:`t_{il} = 1`. "correlated" asks for :math:`t_{il} = s_{il} (R s_i)_l`, so
        that a mistake costs more where correlated labels agree; R must be diagonally dominant.
    fit_intercept : bool, default=True
        Append a constant-1 feature (its weight is regularised like the others), reported as ``intercept_``.
    class_weight : None, "balanced", dict or list of dict, default=None
        For an indicator Y: ``{0: w, 1: w}`` weighs negatives and positives of every label, a list has one such dict
        per label; "balanced" gives both sides of every label the same total weight. For a 1-D y: weights of the
        classes, as in scikit-learn.
    tol : float, default=1e-3
        Relative tolerance: stop when the duality gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Most passes over the rows; a ``ConvergenceWarning`` tells when they did not suffice.
    n_jobs : int, default=None
        Threads, over blocks of labels: components of the label correlation, independent labels 32 at a time. The
        result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Fixes the order in which rows are visited.
    verbose : int, default=0
        1 shows a progress bar with the current gap.
    callback : callable, default=None
        Called with every ``Checkpoint(n_iter, seconds, primal, dual)``; returning True ends the fit with what it has.
    warm_start : bool, default=False
        Start from the solution of the fit before (same rows and labels, e.g. another ``C``).

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Weights of the constant feature; zero without intercept.
    objective_, dual_objective_, duality_gap_ : float
        The certificate: the optimum lies between the dual and the primal objective.
    history_ : list of Checkpoint
        Certified moments of the fit.
    n_iter_ : int
        Passes done.
    classes_ : ndarray
        Labels (0..L-1) of an indicator Y, or the classes of a 1-D y.
    n_features_in_ : int
        Features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string column names.

    Notes
    -----
    A pass costs O(nnz(X) n_labels) with contiguous memory access, for any R; a label that moves costs O(n_labels) more
    when R is dense, its number of neighbours when R is sparse, and with R of rank k the pass costs O(nnz(X) k +
    n_samples n_labels k). Connected components of R are solved on their own. Beside X the solver holds the dual
    variables (n_samples x n_labels), the active sets and the weights.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearMultilabelClassifier._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [None, StrOptions({"balanced"}), dict, list],
        "label_correlation": [None, StrOptions({"train"}), "array-like", "sparse matrix", LabelGraph],
        "loss": [StrOptions({"hamming", "correlated"})],
    }
    _advice = "Increase max_iter or tol, scale X, or lower C."

    def __init__(
        self,
        C: float = 1.0,
        *,
        label_correlation: Any = None,
        loss: str = "hamming",
        fit_intercept: bool = True,
        class_weight: str | dict[Any, float] | list[dict[int, float]] | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callback: Callable[[Checkpoint], object] | None = None,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.label_correlation = label_correlation
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.warm_start = warm_start

    def _solve(self, data: TrainingData, start: np.ndarray | None) -> tuple[Result, dict[str, Any]]:
        row_weight, label_weight = self._weights(data)
        S = 2 * data.Y - 1
        prior = self._prior(data)
        problem = M3LProblem(data.X, S, self.C * row_weight, label_weight, prior, self._targets_of(S, prior))
        result = solve_m3l(
            problem,
            kernel_view(data.X),
            self._control(),
            seeds=self._seeds(len(label_blocks(prior))),
            n_threads=self._n_threads(),
            start=start,
        )
        return result, self._linear_attributes(result.coef)

    def _prior(self, data: TrainingData) -> tuple[PriorPart, ...]:
        """R, checked and split into the parts that are solved on their own."""
        R, n_labels = self.label_correlation, data.Y.shape[1]
        if R is None:
            return identity_prior(n_labels)
        if isinstance(R, str):
            R = smoothed_correlation(data.Y)
        return split_prior(R.weights if isinstance(R, LabelGraph) else R, n_labels)

    def _targets_of(self, S: np.ndarray, prior: tuple[PriorPart, ...]) -> np.ndarray:
        """Margins asked for: (0, 0) stands for 1 everywhere."""
        if self.loss == "hamming":
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

    def _weights(self, data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the rows, and of a negative and a positive of every label."""
        if data.targets.kind == "indicator":
            return data.sample_weight, label_weights(self.class_weight, data.Y, data.sample_weight)
        one_sided = np.ones((2, data.Y.shape[1]))
        if self.class_weight is None:
            return data.sample_weight, one_sided
        y = data.targets.decode(data.Y - 0.5)
        return data.sample_weight * compute_sample_weight(self.class_weight, y), one_sided
