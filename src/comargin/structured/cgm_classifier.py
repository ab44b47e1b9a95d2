"""CGM: a structured SVM that learns its own label graph (Tan et al., 2015)."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from ..core.estimator import Interval
from ..core.loop import Control
from ..core.result import Result
from ..core.validation import Matrix, TrainingData, loop_view
from .cgm_solver import Generation, solve_cgm
from .classifier import StructuredClassifier
from .cliques import MAX_ORDER, CliqueSet
from .labelings import StructuredDual
from .problem import StructuredProblem

_UNSCALED = 100.0  # root mean square of a feature that no scaling has seen


class CGMClassifier(StructuredClassifier):
    r"""Clique generating machine: a structured SVM that learns which labels depend on each other.

    The model is that of :class:`StructuredSVMClassifier`: ``predict`` gives the labeling of the highest score. Learning
    starts without cliques; every round scores all cliques by how much the current dual solution asks for them,
    activates the best and solves again, to a certified optimum. The cliques of a round are one group of the regulariser
    :math:`\tfrac\alpha2 (\sum_k \|\omega_k\|)^2`, which makes the weights of useless rounds zero at the optimum.
    Labels that depend on no other stay isolated.

    Parameters
    ----------
    alpha : float, default=1e-4
        Strength of the regulariser, lambda in the paper.
    cliques_per_round : int, default=1
        Cliques activated together, r in the paper.
    clique_order : int, default=2
        Largest order of a clique; all cliques of order 2 up to it compete.
    max_cliques : int or None, default=None
        Most cliques; those of a warm start stay in any case.
    max_rounds : int, default=50
        Most rounds after the first, which learns labels on their own.
    round_tol : float, default=0.05
        Stop when the objective fell by no more than this fraction in two rounds, and take these two back. 0 goes on
        until another rule stops.
    {kernel} {gamma} {degree} {coef0} {cache_size} {inference}
    {fit_intercept}
        With a kernel, in its feature space: 1 is added to every kernel value.
    {class_weight}
    tol : float, default=1e-3
        Relative tolerance of the last round: the duality gap is at most ``tol`` times the objective. Rounds before it
        are solved to 0.01 if that is more. Also: stop when no clique can improve the objective by more.
    max_iter : int, default=1000
        Most passes over the rows in each round; a ``ConvergenceWarning`` says when the last had too few.
    {n_jobs} {random_state} {verbose} {callback}
    warm_start : bool, default=False
        Go on from the cliques and weights of the fit before (same rows and labels), e.g. with more ``max_cliques``.
        A fit that ``callback`` stopped goes on in its round if no parameter has changed: ``rounds_``, ``history_`` and
        ``n_iter_`` then count from its beginning.

    Attributes
    ----------
    cliques_ : list of tuple of int
        Cliques in the order of their activation.
    clique_norms_ : ndarray of shape (n_cliques,)
        Lengths of their weights; exactly 0 for dropped rounds.
    label_graph_ : LabelGraph
        Pairs of labels weighted by these lengths.
    rounds_ : list of Round
        For every round: cliques activated, their number so far, objective, gap, improvement, training Hamming loss,
        passes and seconds. ``improvement`` bounds what any further cliques can gain: the relaxed problem (6) of the
        paper, over all sets of ``cliques_per_round`` cliques, has an optimum of at least objective - improvement.
    {coef_} {intercept_} {clique_coef_} {support_} {support_vectors_} {dual_coef_} {clique_dual_coef_}
    {kernel_residual_}
    objective_, dual_objective_, duality_gap_ : float
        The certificate of the last round, for its cliques.
    history_ : list of Checkpoint
        Certified moments of all rounds.
    n_iter_ : int
        Passes done in all rounds.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    The paper's Algorithm 1 starts from the labelings that are wrong everywhere, whose scores see the labels one by one
    only; here the first round solves the problem without cliques. Its Algorithm 2 does not converge as printed; passes
    and Newton steps of :class:`StructuredSVMClassifier` take its place. To score all pairs costs one product of X with
    n_labels^2 / 2 columns, in parts of bounded memory.

    References
    ----------
    Tan, Shi, van den Hengel, Shen, Gao, Hu, Zhang: Learning graph structure for multi-label image classification via
    clique generation. CVPR 2015, doi:10.1109/CVPR.2015.7299034.

    Examples
    --------
    >>> from comargin import CGMClassifier
    >>> from comargin.data import make_cgm_toy
    >>> toy = make_cgm_toy(500)
    >>> model = CGMClassifier(cliques_per_round=2, max_cliques=4, random_state=0).fit(toy.X, toy.Y)
    >>> sorted(model.cliques_)
    [(0, 1), (0, 2), (0, 3), (0, 4)]
    """

    cliques_per_round: int = 1
    clique_order: int = 2
    max_cliques: int | None = None
    max_rounds: int = 50
    round_tol: float = 0.05

    _per = " in each round"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cliques_per_round": [Interval(Integral, 1, None, closed="left")],
        "clique_order": [Interval(Integral, 2, MAX_ORDER, closed="both")],
        "max_cliques": [None, Interval(Integral, 0, None, closed="left")],
        "max_rounds": [Interval(Integral, 0, None, closed="left")],
        "round_tol": [Interval(Real, 0, 1, closed="both")],
    }

    def _solve(
        self, data: TrainingData, start: Any, control: Control, offsets: Any = None
    ) -> tuple[Result, dict[str, Any]]:
        if self.kernel == "linear":
            _warn_about_scales(data.X, getattr(self, "feature_names_in_", None))
        return super()._solve(data, start, control, offsets)

    def _learn(
        self, problem: StructuredProblem, weight: np.ndarray, start: StructuredDual | None, control: Control
    ) -> tuple[Result, CliqueSet, dict[str, Any]]:
        n_labels = problem.Y.shape[1]
        if self.clique_order > max(n_labels, 2):
            raise ValueError(f"clique_order={self.clique_order} is more than the number of labels of y, {n_labels}")
        rules = Generation(self.cliques_per_round, self.clique_order, self.max_cliques, self.max_rounds, self.round_tol)
        seed, n_threads = self._seeds(1)[0], self._n_threads()
        result, cliques, rounds = solve_cgm(
            problem, loop_view(problem.X), self._engine, control, rules, seed=seed, n_threads=n_threads, start=start
        )
        return result, cliques, {"rounds_": rounds}


def _warn_about_scales(X: Matrix, names: np.ndarray | None) -> None:
    """Say before a fit, not after it, that unscaled features make it long."""
    squares = np.vecdot(X.T, X.T) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=0)).ravel()
    sizes = np.sqrt(squares / X.shape[0])
    large = np.flatnonzero(sizes > _UNSCALED)
    if large.size:
        worst = large[np.argsort(-sizes[large], kind="stable")][:3]
        named = ", ".join(f"{k if names is None else names[k]} ({sizes[k]:.3g})" for k in worst)
        warnings.warn(
            f"CGMClassifier: {large.size} features are not scaled, the root mean squares of the largest are {named}: "
            "the fit may take very long. Scale X first, e.g. with StandardScaler()",
            UserWarning,
            stacklevel=6,  # the caller of fit
        )
