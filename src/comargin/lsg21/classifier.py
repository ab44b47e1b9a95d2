"""LSG21: least squares whose features are shared along the edges of a label graph."""

from collections.abc import Callable
from dataclasses import field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..core.estimator import Interval, LinearMultilabelClassifier, StrOptions
from ..core.explanation import Explanation
from ..core.loop import Control
from ..core.result import Result
from ..core.validation import TrainingData
from ..graphs import LabelGraph, cosine_affinity
from ._unknown import KnownCells, solve_known_cells
from .irls_solver import solve_lsg21_irls
from .problem import EdgePenalty, LSG21Problem
from .solver import LSG21Start, alpha_max, full_gram, solve_lsg21

_USUAL = (1e-30, 1e30)  # largest entries of X that need no rescaling
_Solve = Callable[[float, LSG21Start | None, Control], tuple[Result, dict[str, Any]]]


class LSG21Classifier(LinearMultilabelClassifier):
    r"""Least squares with an l2,1 norm on every edge of the label graph, solved to a certified optimum.

    .. math:: \min_{W, b} \|X W + 1 b^\top - Y\|_F^2
        + \alpha \sum_{i} \sum_{j} a_{ij} \|[w_i, w_j]\|_{2,1}

    over ordered pairs of labels, Eq. (3): a feature that two related labels share costs less than one for each. Most
    weights are exactly zero, which selects features. A label is on where its value reaches 0.5.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, not negative. Zero weights from ``alpha_max`` on (see `LSG21ClassifierCV`); it grows
        with the number of rows.
    affinity : "cosine", array-like, sparse matrix or LabelGraph of shape (n_labels, n_labels), default="cosine"
        a, symmetric and not negative. "cosine" is the cosine similarity of the label columns, without the entries
        below ``edge_threshold``.
    edge_threshold : float, default=0.1
        For "cosine": entries below this fraction of the largest are no edges. In [0, 1].
    self_edges : bool, default=True
        Keep the diagonal of a: it adds :math:`\sqrt2 a_{ii} \|w_i\|_1` for every label. Without it a label that has no
        edges is not penalised at all; if its weights are not unique then, the shortest are taken, with a warning.
    fit_intercept : bool, default=True
        Learn b, which is not penalised. False fixes it to 0.
    solver : {"auto", "irls"}, default="auto"
        "auto" minimises over one feature at a time, with steps for all weights that are not zero in between. "irls" is
        the reweighting of the paper: no weight becomes exactly zero, and a small gap takes hundreds of rounds.
    tol : float, default=1e-6
        Relative tolerance: the fit ends when the duality gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Most steps (Newton and passes over the features), or rounds of "irls".
    n_jobs : int, default=None
        Not used by one fit. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Not used: nothing is random.
    {verbose}
    callback : callable, default=None
        Called with every ``Checkpoint``; returning True ends the fit with the best result so far.
    warm_start : bool, default=False
        Start from the weights of the fit before, which must have been on the same rows, features and labels.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        W transposed, with exact zeros.
    sparse_coef_ : csr_array of shape (n_labels, n_features)
        The same without the zeros.
    intercept_ : ndarray of shape (n_labels,)
        b.
    selected_features_ : list of ndarray
        For every label, the features whose weight is not zero.
    shared_features_ : dict of (int, int) to ndarray
        For every edge (i, j), i < j, the features that both labels use.
    label_graph_ : LabelGraph
        a, as used in the penalty.
    {objective_} {history_}
    n_iter_ : int
        Steps done.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    ``decision_function`` is x W + b - 0.5, so that positive means on. Features should have similar scales: the penalty
    compares their weights. The values are regressions of 0 and 1 and shrunk by the penalty; a cut from
    :mod:`comargin.decisions` gives better label sets than 0.5 when labels are rare.

    References
    ----------
    X. Cai, F. Nie, W. Cai, H. Huang: New graph structured sparsity model for multi-label image annotations. ICCV 2013,
    doi:10.1109/ICCV.2013.104.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import LSG21Classifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> Y = (X[:, :3] + X[:, 1:4] > 0).astype(int)
    >>> model = LSG21Classifier(alpha=20.0).fit(X, Y)
    >>> [features.tolist() for features in model.selected_features_]
    [[0, 1], [1, 2], [2, 3]]
    >>> bool(model.duality_gap_ <= 1e-6 * model.objective_)
    True
    """

    alpha: float = field(default=1.0, kw_only=False)
    affinity: Any = "cosine"
    edge_threshold: float = 0.1
    self_edges: bool = True
    solver: str = "auto"
    tol: float = 1e-6

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "affinity": [StrOptions({"cosine"}), "array-like", "sparse matrix", LabelGraph],
        "edge_threshold": [Interval(Real, 0, 1, closed="both")],
        "self_edges": ["boolean"],
        "solver": [StrOptions({"auto", "irls"})],
    }
    _takes_unknown = True
    _path_parameter = "alpha"
    _path_ascends = False

    @property
    def sparse_coef_(self) -> sp.csr_array:
        """Weights without the zeros, (n_labels, n_features)."""
        return sp.csr_array(self.coef_)

    def _constant_feature(self, data: TrainingData) -> float:
        return 0.0  # b is free

    def _prepare(self, data: TrainingData) -> _Solve:
        """Do once everything that does not depend on alpha; returns the function that solves for an alpha."""
        graph, unit = self._graph(data), _unit(data.X)
        problem = self._problem(data, graph, unit)
        cells = None if data.known is None else self._known_cells(data, problem, unit)
        gram = full_gram(problem) if self.solver == "auto" else None

        def solve(alpha: float, start: LSG21Start | None, control: Control) -> tuple[Result, dict[str, Any]]:
            W, n_features = None if start is None else start.W, problem.X.shape[1]
            if W is not None and len(W) != n_features:
                raise ValueError(
                    "warm_start=True continues with the same features: the fit before had "
                    f"{len(W)}, X now has {n_features}"
                )
            control.warnings.extend(self._free_label_warnings(problem, alpha))
            if self.solver == "irls":
                result = solve_lsg21_irls(problem, alpha / unit, control, start=W)
            elif cells is not None:
                result = solve_known_cells(cells, alpha / unit, control, start=W, gram=gram)
            else:
                result = solve_lsg21(problem, alpha / unit, control, start=W, gram=gram)
            used = result.coef != 0.0
            pairs = zip(problem.penalty.first.tolist(), problem.penalty.second.tolist(), strict=True)
            return result, {
                "coef_": result.coef / unit,
                "intercept_": (problem if cells is None else cells).intercept(result.coef.T),
                "selected_features_": [np.flatnonzero(row) for row in used],
                "shared_features_": {(i, j): np.flatnonzero(used[i] & used[j]) for i, j in pairs},
                "label_graph_": graph,
            }

        return solve

    def _graph(self, data: TrainingData) -> LabelGraph:
        n_labels = data.Y.shape[1]
        if isinstance(self.affinity, str):
            return cosine_affinity(data.labels, self.edge_threshold, sample_weight=data.sample_weight)
        try:
            graph = self.affinity if isinstance(self.affinity, LabelGraph) else LabelGraph(self.affinity)
        except ValueError as error:
            raise ValueError(f"affinity must be a symmetric matrix of non-negative numbers: {error}") from error
        if graph.weights.shape != (n_labels, n_labels):
            raise ValueError(f"affinity must be of shape ({n_labels}, {n_labels}), got {graph.weights.shape}")
        if graph.weights.nnz and graph.weights.data.min() < 0.0:
            raise ValueError(f"affinity must not be negative, got {graph.weights.data.min():g}")
        return graph

    def _problem(self, data: TrainingData, graph: LabelGraph, unit: float) -> LSG21Problem:
        penalty = EdgePenalty.from_affinity(graph.weights, self.self_edges)
        X = data.X if unit == 1.0 else data.X / unit
        problem = LSG21Problem.build(X, data.Y, data.sample_weight, penalty, self.fit_intercept)
        return (
            problem
            if data.known is None
            else self._known_cells(data, problem, unit).filled(np.zeros((X.shape[1], data.Y.shape[1])))
        )

    def _known_cells(self, data: TrainingData, problem: LSG21Problem, unit: float) -> KnownCells:
        if self.solver == "irls":
            raise ValueError('solver="irls" takes no unknown labels (NaN in y): use solver="auto"')
        assert data.known is not None
        X = data.X if unit == 1.0 else data.X / unit
        return KnownCells(problem, X, data.Y, data.known, data.sample_weight)

    def _free_label_warnings(self, problem: LSG21Problem, alpha: float) -> list[Warning]:
        """A warning when labels without a penalty have several least-squares solutions."""
        free = np.flatnonzero((alpha * problem.penalty.total == 0.0) & problem.Y.any(axis=0))
        if free.size and problem.is_rank_deficient():
            names = ", ".join(str(label) for label in free[:10]) + (", ..." if free.size > 10 else "")
            why, cure = (
                ("have no edges and", "self_edges=True, or an affinity with a positive diagonal")
                if alpha > 0.0
                else ("with alpha=0", "a positive alpha")
            )
            text = (
                f"{type(self).__name__}: labels {names} {why} are not penalised, and X does not determine their weights"
                f": of all least-squares solutions the one of least norm is taken. Use {cure}"
            )
            return [UserWarning(text)]
        return []

    def _scores(self, X: Any) -> np.ndarray:
        scores = super()._scores(X) - 0.5
        scores[scores == 0.0] = np.finfo(np.float64).tiny  # 0.5 is on
        return scores

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        found = super()._explanations(X, asked, top, names)
        return [[one._replace(score=one.score - 0.5, intercept=one.intercept - 0.5) for one in row] for row in found]


def _unit(X: np.ndarray | sp.csr_array) -> float:
    """A power of two that scales extreme features so that cubes do not overflow: X W = (X / unit) (unit W)."""
    largest = max(float(X.max()), -float(X.min())) if X.size else 0.0
    return 1.0 if largest == 0.0 or _USUAL[0] < largest < _USUAL[1] else float(2.0 ** np.floor(np.log2(largest)))


def largest_alpha(learner: LSG21Classifier, data: TrainingData) -> float:
    """``alpha_max`` of some data: from there on no penalised label has weights; 0 when nothing is penalised."""
    unit = _unit(data.X)
    problem = learner._problem(data, learner._graph(data), unit)
    penalised = np.flatnonzero(problem.penalty.total > 0.0)
    return unit * alpha_max(problem.at(penalised)) if penalised.size else 0.0
