"""Structured SVMs as scikit-learn estimators: labels are predicted together, by the best labeling of a graph."""

import itertools
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..core.checks import finite_scores
from ..core.estimator import Interval, StrOptions, checks_parameters
from ..core.explanation import Explanation, linear_explanations
from ..core.kernel_functions import KernelMultilabelClassifier, kernel_function
from ..core.loop import Control
from ..core.result import Result
from ..core.row_blocks import row_blocks
from ..core.validation import Matrix, TrainingData, loop_view, validate_features
from ..graphs import LabelGraph, chow_liu_tree
from ..inference import Inference, MapResult
from ._pulls import Pulls
from .cliques import CliqueSet, check_cliques
from .kernel_features import KernelFeatures, residual_bound
from .labelings import StructuredDual
from .problem import StructuredProblem, check_offsets
from .solver import solve_structured

_BLOCK_BYTES = 2**26  # of potentials in memory together, in prediction
_SMALLEST_MASS = 1e-100  # share of all weight below which a row has none: its inverse must be finite


class StructuredClassifier(KernelMultilabelClassifier):
    r"""Base of learners that score labelings: a weight vector for every node and every state of a clique.

    A subclass writes ``_learn``, which returns a solver's result and the cliques that its columns belong to.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        Replaces the product of two rows. "precomputed" takes kernel matrices for X: those of the training rows in
        ``fit``, of new rows with all training rows in ``predict``. A callable gets two matrices of rows and returns the
        kernel values of all pairs.
    cache_size : float, default=1000
        Megabytes for the factor of the kernel matrix, which limit its rank: ``kernel_residual_`` says what that costs.
    inference : {"auto", "exact", "mplp"}, default="auto"
        How the best labeling is found. "auto" is exact where it can be (small treewidth, or few labels in a connected
        part); elsewhere the certificate counts the bound of inference. "exact" refuses graphs whose treewidth is too
        large, "mplp" is the message passing of the CGM paper.
    class_weight : None, "balanced", dict or list of dict, default=None
        For an indicator Y, costs of wrong labels: ``{0: w, 1: w}`` of a negative and a positive that is wrong, a list
        has one such dict per label. For a 1-D y: weights of the classes, as in scikit-learn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the labels on their own (linear kernel only).
    intercept_ : ndarray of shape (n_labels,)
        Their weights of the constant feature.
    clique_coef_, clique_intercept_ : list of ndarray
        Weights of the states of the cliques, of shape (2^order, n_features) and (2^order,): state
        :math:`\sum_t y_{c_t} 2^{|c| - 1 - t}`. With a kernel there is no ``clique_coef_``.
    support_ : int ndarray of shape (n_support,)
        Training rows that scores depend on (kernels only, as all below).
    dual_coef_ : ndarray of shape (n_labels, n_support)
        Coefficients of kernel values with the support rows, in place of ``coef_``.
    clique_dual_coef_ : list of ndarray of shape (2^order, n_support)
        The same in place of ``clique_coef_``.
    kernel_residual_ : float
        Bound of what the objective can lose as its kernel matrix has been projected on the support rows;
        ``dual_objective_`` and ``duality_gap_`` include it.
    """

    alpha: float = field(default=1e-4, kw_only=False)
    inference: str = "auto"
    fit_intercept: bool = True
    class_weight: str | dict[Any, float] | list[dict[int, float]] | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions({"auto", "exact", "mplp"})],
    }
    _advice = "Increase max_iter, tol or alpha, or scale X."

    @abstractmethod
    def _learn(
        self, problem: StructuredProblem, weight: np.ndarray, start: StructuredDual | None, control: Control
    ) -> tuple[Result, CliqueSet, dict[str, Any]]:
        """Solve; ``problem`` has no cliques yet, ``weight`` are the weights of its rows.

        Returns the result, its cliques and attributes of the learner.
        """

    @checks_parameters
    def fit_with_offsets(self, X: Any, y: Any, offsets: Any, sample_weight: Any = None) -> Self:
        """Learn a correction of scores that are given.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, as in `fit`.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            Labels, as in `fit`.
        offsets : array-like of shape (n_samples, n_labels)
            Part of the score of every label being on that no weights change, e.g. what another model says about the
            rows; 1 outweighs the cost of a wrong label. `predict` and `decision_function` need those of their rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as in `fit`.

        Returns
        -------
        self : object
            The fitted estimator. With a large ``alpha`` labels are on where their offset is positive.
        """
        for warning in self._fit(X, y, sample_weight, self._control(), offsets=offsets):
            warnings.warn(warning, stacklevel=3)  # the caller, past scikit-learn's context
        return self

    def _solve(
        self, data: TrainingData, start: Any, control: Control, offsets: Any = None
    ) -> tuple[Result, dict[str, Any]]:
        weight, sides = self._weights(data)
        Y = data.Y.astype(np.uint8)
        n_labels = Y.shape[1]
        cost = np.where(Y > 0, sides[1], sides[0])
        if offsets is not None:
            cost += (1.0 - 2.0 * Y) * check_offsets(offsets, Y.shape)
        mass = weight / weight.sum()
        mass[mass < _SMALLEST_MASS] = 0.0
        features = self._kernel_features(data.X)
        X, basis = _in_row_space(data.X) if features is None else (features.factor.F, None)
        problem = StructuredProblem(X, Y, mass, cost, CliqueSet(n_labels), float(self.alpha))
        result, cliques, attributes = self._learn(problem, weight, start, control)
        if basis is not None:
            result = replace(result, coef=result.coef @ basis.T)
        norms = np.sqrt(cliques.clique_squares(np.vecdot(result.coef, result.coef)))
        coef, intercept = result.coef, np.zeros(len(result.coef))
        if self.fit_intercept:
            coef, intercept = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
        kernel_attributes = {}
        if features is not None:
            residual = residual_bound(replace(problem, cliques=cliques), result.dual_coef, features.factor.residual)
            result = self._with_residual(result, residual, control)
            coef = features.coefficients(coef)
            kernel_attributes = features.attributes() | {"kernel_residual_": residual}
        tables = [slice(a, b) for a, b in itertools.pairwise(cliques.column)]
        # A clique without weights changes no labeling, and costs nothing at prediction.
        used = np.flatnonzero(norms)
        columns = np.concatenate([np.arange(n_labels), *(np.arange(tables[c].start, tables[c].stop) for c in used)])
        engine = self._engine(CliqueSet(n_labels, tuple(cliques.cliques[c] for c in used), (0,) * len(used)))
        dual = "" if features is None else "dual_"
        return result, attributes | kernel_attributes | {
            f"{dual}coef_": coef[:n_labels],
            "intercept_": intercept[:n_labels],
            "cliques_": list(cliques.cliques),
            f"clique_{dual}coef_": [coef[table] for table in tables],
            "clique_intercept_": [intercept[table] for table in tables],
            "clique_norms_": norms,
            "label_graph_": _label_graph(cliques, norms, data.targets.names),
            "_column_coef": np.ascontiguousarray(coef[columns]),
            "_column_intercept": intercept[columns],
            "_inference_engine": engine,
        }

    def _kernel_features(self, X: Matrix) -> KernelFeatures | None:
        """Features in whose place the kernel stands; None for a linear one, which has its own."""
        if self._is_linear():
            return None
        function = kernel_function(self.kernel, self.gamma, self.degree, self.coef0, X)
        return KernelFeatures.of(function, X, self.cache_size, constant=self.fit_intercept)

    def _with_residual(self, result: Result, residual: float, control: Control) -> Result:
        """The result with the certificate of the kernel itself; a warning if its factor spoils it."""
        if residual > result.tol_abs:
            control.warnings.append(
                ConvergenceWarning(
                    f"{type(self).__name__}: the factor of the kernel matrix may cost {residual:.1e} of the objective "
                    f"{result.primal:.4g}, more than the tolerance {result.tol_abs:.1e}. Increase cache_size or alpha."
                )
            )
        last = result.history[-1]
        return replace(result, history=(*result.history[:-1], last._replace(dual=last.dual - residual)))

    def _is_linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _constant_feature(self, data: TrainingData) -> float:
        return float(self.fit_intercept and self._is_linear())

    def _convergence_message(self, result: Result) -> str:
        message = super()._convergence_message(result)
        if self._engine(result.dual_coef.cliques).exact:
            return message
        return f"{message} inference={self.inference!r} is not exact on this graph: part of the gap may be its."

    def _engine(self, cliques: CliqueSet) -> Inference:
        try:
            return Inference(cliques.n_labels, cliques.cliques, self.inference)
        except ValueError as error:  # the argument has another name here
            raise ValueError(str(error).replace("method=", "inference=")) from error

    def _potentials(self, X: Any, offsets: Any = None) -> Iterator[np.ndarray]:
        """Potentials of the rows, in parts."""
        X = validate_features(self, X)
        n_labels = len(self.intercept_)
        offsets = None if offsets is None else check_offsets(offsets, (X.shape[0], n_labels))
        for rows in row_blocks(X.shape[0], max(1, _BLOCK_BYTES // (8 * len(self._column_coef)))):
            part, coef = X[rows], self._column_coef
            if hasattr(self, "coef_"):
                scores = part @ coef.T
            else:
                scores = self._kernel_function.scores(part, self.support_vectors_, self.support_, coef)
            potentials = np.ascontiguousarray(finite_scores(scores + self._column_intercept, self, rows.start))
            if offsets is not None:
                potentials[:, :n_labels] += offsets[rows]
            yield potentials

    def decision_function(self, X: Any, offsets: Any = None) -> np.ndarray:
        """Max-marginal of every label: the best score with the label on minus the best with it off.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        offsets : array-like of shape (n_samples, n_labels), default=None
            Fixed parts of the scores, as in `fit_with_offsets`; zero if None.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a 1-D y of at most two classes
            Decision values.
        """
        check_is_fitted(self)
        scores = self._certain(self._scores, X, offsets)
        return scores[:, 0] if self._targets.kind in ("binary", "constant") else scores

    def predict(self, X: Any, offsets: Any = None) -> np.ndarray | sp.csr_array:
        """Best labeling of every row, in the form y had in ``fit``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        offsets : array-like of shape (n_samples, n_labels), default=None
            Fixed parts of the scores, as in `fit_with_offsets`; zero if None.

        Returns
        -------
        ndarray or csr_array
            Indicator in {0, 1} (CSR when y was sparse), or one class per row.
        """
        check_is_fitted(self)
        return self._targets.decode(self._certain(self._deciding_scores, X, offsets))

    def _scores(self, X: Any, offsets: Any = None) -> np.ndarray:
        return np.concatenate([self._inference_engine.max_marginals(part) for part in self._potentials(X, offsets)])

    def _deciding_scores(self, X: Any, offsets: Any = None) -> np.ndarray:
        if self._targets.kind == "multiclass":  # one class per row: the label with the largest decision value
            return self._scores(X, offsets)
        return np.concatenate([self._inference_engine.map(part)[0] for part in self._potentials(X, offsets)])

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        rows, first, found = validate_features(self, X), 0, []
        for part in self._potentials(X):
            here = slice(first, first + len(part))
            pulls = Pulls(self._inference_engine.cliques, part, self._inference_engine.map(part)[0])
            given = asked[here], top
            if hasattr(self, "coef_"):
                found += linear_explanations(rows[here], self.coef_, self.intercept_, *given, names, more=pulls.of)
            else:
                values = self._kernel_function.values(rows[here], self.support_vectors_, self.support_)
                found += linear_explanations(
                    values, self.dual_coef_, self.intercept_, *given, self.support_, kind="training_row", more=pulls.of
                )
            first = here.stop
        return found

    def predict_map(self, X: Any, offsets: Any = None) -> MapResult:
        """Best labelings with their scores, and bounds that no labeling exceeds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        offsets : array-like of shape (n_samples, n_labels), default=None
            Fixed parts of the scores, as in `fit_with_offsets`; zero if None.

        Returns
        -------
        MapResult
            ``labels`` (n_samples, n_labels), ``score`` and ``bound`` (n_samples,); ``certified`` is the fraction of
            rows whose labels are proved to be best.
        """
        check_is_fitted(self)
        parts = [self._inference_engine.map(potentials) for potentials in self._potentials(X, offsets)]
        labels, score, bound = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return MapResult(labels, score, bound)


def _in_row_space(X: Matrix) -> tuple[Matrix, np.ndarray | None]:
    """Rows in an orthonormal basis of their span, and the basis (n_features, n_samples), when that is much smaller.

    Weights are sums of rows and norms do not see the basis, so the problem is the same.
    """
    if not isinstance(X, np.ndarray) or X.shape[1] <= 2 * X.shape[0]:
        return X, None
    basis, triangle = np.linalg.qr(X.T)
    return np.ascontiguousarray(triangle.T), basis


def _label_graph(cliques: CliqueSet, norms: np.ndarray, names: tuple[str, ...]) -> LabelGraph:
    """Pairs of labels, weighted by the length of the weights of all cliques that hold both."""
    squares = np.zeros((cliques.n_labels, cliques.n_labels))
    for clique, norm in zip(cliques.cliques, norms, strict=True):
        for j, k in itertools.permutations(clique, 2):
            squares[j, k] += norm**2
    return LabelGraph(np.sqrt(squares), names if len(set(names)) == cliques.n_labels else ())


class StructuredSVMClassifier(StructuredClassifier):
    r"""Structured SVM with a fixed graph of labels, solved to a certified optimum.

    A labeling y of a row x has the score :math:`\sum_k y_k\, g_k^\top x + \sum_c v_{c, y_c}^\top x`, with a weight
    vector for every label and for every joint state of the labels of a clique c. Learning minimises

    .. math:: \tfrac\alpha4 \|g\|^2 + \tfrac\alpha2 \Big(\sum_k \|\omega_k\|\Big)^2
        + \frac1n \sum_i \max_y \big[\Delta(y, y_i) + s(y, x_i) - s(y_i, x_i)\big]

    where :math:`\Delta` counts wrong labels and :math:`\omega_k` are the weights of the cliques of group k. (The papers
    write a node with two weight vectors, on and off; :math:`g_k` is their difference.)

    Parameters
    ----------
    alpha : float, default=1e-4
        Strength of the regulariser, lambda in the papers.
    graph : {"tree", "none", "full"}, LabelGraph or sequence of cliques, default="tree"
        "tree" is the Chow-Liu tree of the training labels, "full" has all pairs. A sequence has tuples of label
        indices, of two labels or more; a LabelGraph gives its edges.
    groups : sequence of int or None, default=None
        Group of every clique in the regulariser; cliques of different groups compete, and useless groups are dropped.
        None is one group, the ordinary squared norm.
    {kernel} {gamma} {degree} {coef0} {cache_size} {inference}
    {fit_intercept}
        With a kernel, in its feature space: 1 is added to every kernel value.
    {class_weight} {tol}
    max_iter : int, default=1000
        Most passes over the rows; a ``ConvergenceWarning`` says when they do not suffice.
    {n_jobs} {random_state} {verbose} {callback}
    warm_start : bool, default=False
        Start from the solution of the fit before (same rows and labels, e.g. another ``alpha`` or more cliques).

    Attributes
    ----------
    {coef_} {intercept_} {support_} {support_vectors_} {dual_coef_} {clique_dual_coef_} {kernel_residual_}
    cliques_ : list of tuple of int
        Cliques of the graph.
    {clique_coef_}
    clique_norms_ : ndarray of shape (n_cliques,)
        Lengths of their weights; exactly 0 for dropped groups.
    label_graph_ : LabelGraph
        The graph with these lengths as weights.
    {objective_}
        Where inference is not exact the primal is taken from its bounds, and so is an upper bound of the objective.
    {history_}
    n_iter_ : int
        Passes done.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    Scale the features, e.g. by ``StandardScaler``: with very different or large ones fits take long.

    ``predict`` gives the labeling of the highest score; ``decision_function`` the max-marginal difference of every
    label, the best score with the label on minus the best with it off.

    A pass costs two products of X with as many columns as there are labels and states of cliques, and inference. Beside
    X and the weights the solver holds labelings of every row in every connected part of the graph, 8 at first and
    seldom more than 64.

    References
    ----------
    Tan et al.: Learning graph structure for multi-label image classification via clique generation. CVPR 2015.
    Lacoste-Julien et al.: Block-coordinate Frank-Wolfe optimization for structural SVMs. ICML 2013.

    Examples
    --------
    >>> from comargin import StructuredSVMClassifier
    >>> from comargin.data import make_cgm_toy
    >>> toy = make_cgm_toy(300)
    >>> model = StructuredSVMClassifier(graph=[(0, 1), (0, 2), (0, 3), (0, 4)], random_state=0).fit(toy.X, toy.Y)
    >>> model.predict(toy.X[:1]).shape, model.predict_map(toy.X).certified
    ((1, 10), 1.0)
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    graph: Any = "tree"
    groups: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "graph": [StrOptions({"tree", "none", "full"}), LabelGraph, "array-like"],
        "groups": [None, "array-like"],
    }

    def _learn(
        self, problem: StructuredProblem, weight: np.ndarray, start: StructuredDual | None, control: Control
    ) -> tuple[Result, CliqueSet, dict[str, Any]]:
        cliques = self._cliques(problem.Y, weight)
        problem = replace(problem, cliques=cliques)
        seed, n_threads = self._seeds(1)[0], self._n_threads()
        result = solve_structured(
            problem, loop_view(problem.X), self._engine, control, seed=seed, n_threads=n_threads, start=start
        )
        return result, cliques, {}

    def _cliques(self, Y: np.ndarray, weight: np.ndarray) -> CliqueSet:
        """The graph of the parameters."""
        n_labels = Y.shape[1]
        if isinstance(self.graph, str):
            pairs: dict[str, Callable[[], Any]] = {
                "none": tuple,
                "full": lambda: itertools.combinations(range(n_labels), 2),
                "tree": lambda: chow_liu_tree(Y, sample_weight=weight).edges.tolist(),
            }
            graph = pairs[self.graph]()
        elif isinstance(self.graph, LabelGraph):
            if self.graph.n_labels != n_labels:
                raise ValueError(f"graph has {self.graph.n_labels} labels, but y has {n_labels}")
            graph = self.graph.edges.tolist()
        else:
            graph = self.graph
        cliques = check_cliques(graph, n_labels, "graph")
        if self.groups is None:
            return CliqueSet(n_labels, cliques, (0,) * len(cliques))
        try:
            groups = np.asarray(self.groups)
        except ValueError as error:
            raise ValueError(f"groups must have one int per clique, got {self.groups!r}") from error
        if groups.shape != (len(cliques),) or (groups.size and groups.dtype.kind not in "iu"):
            raise ValueError(
                f"groups must have one int per clique, shape ({len(cliques)},), got shape {groups.shape} of dtype "
                f"{groups.dtype}"
            )
        numbered = np.unique(groups, return_inverse=True)[1]
        return CliqueSet(n_labels, cliques, tuple(int(group) for group in numbered))
