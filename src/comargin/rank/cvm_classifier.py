"""Rank-CVM: the core vector machine that ranks labels."""

from typing import Any, ClassVar

import numpy as np

from ..core.estimator import StrOptions
from ..core.gram import Gram
from ..core.loop import Control
from ..core.result import Result
from ._products import KernelProducts
from .classifier import RankClassifier
from .cvm_solver import solve_rank_cvm
from .fw_solver import solve_rank_cvm_fw
from .problem import RankProblem


class RankCVMClassifier(RankClassifier):
    r"""Core vector machine that ranks labels (Rank-CVM).

    In every row each label that is on should score higher than each label that is off; shortfalls of such pairs cost
    their squares, Eq. (30):

    .. math:: \tfrac12 \sum_k (\|w_k\|^2 + b_k^2) + \tfrac{C}{2} \sum_i \frac{1}{|L_i| |N_i|}
              \sum_{m \in L_i, n \in N_i} \max(0, \rho - f_m(x_i) + f_n(x_i))^2 - \rho

    with :math:`f_k(x) = w_k^\top x + b_k` and :math:`L_i`, :math:`N_i` the labels that are on and off in row i. Label
    sets are read off the ranking by a threshold t(x) that is linear in the scores
    (:class:`~comargin.decisions.RankSVMCut`); ``decision_function`` is f(x) - t(x), ``rank_scores`` is f(x).

    Parameters
    ----------
    {C} {kernel} {gamma} {degree} {coef0}
    solver : {"auto", "cd", "fw"}, default="auto"
        "auto" takes some passes of row-block coordinate descent, then Newton steps with conjugate gradients. For
        comparison: "cd" is coordinate descent alone, "fw" the paper's Frank-Wolfe method (slow, no warm starts).
    {cache_size}
    tol : float, default=1e-3
        Relative tolerance: stop when the Frank-Wolfe gap is at most ``tol`` times the objective. It bounds the worst
        pair; the objective itself is usually much closer to its minimum.
    max_iter : int, default=1000
        Most passes and Newton steps ("fw": times n_samples steps), with a ``ConvergenceWarning`` at the limit.
    {n_jobs} {random_state} {verbose} {callback} {warm_start}

    Attributes
    ----------
    {support_} {n_support_} {support_vectors_} {dual_coef_}
    intercept_ : ndarray of shape (n_labels,)
        b.
    {coef_} {threshold_} {n_skipped_}
    objective_, dual_objective_, duality_gap_ : float
        The certificate: the minimum of :math:`\tfrac12 a^\top \Theta a` on the simplex (Eq. 37) lies between the
        first two. At the optimum :math:`\rho` is twice the objective.
    {history_}
    n_iter_ : int
        Passes and Newton steps done.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    Pairs are never listed: from sorted scores of a row, sums over its pairs are sums of prefixes. Memory is some arrays
    of n_samples x n_labels, and ``cache_size``. A Newton step costs products of the kernel matrix with such arrays, or
    with a linear kernel of X. Features should be scaled: where one is 10000 times larger than the others, rounding ends
    the fit far from the optimum, with a warning.

    The scores f are small (they sum to 0 in every row, and their scale falls with the number of rows): compare them
    within a row only.

    References
    ----------
    J. Xu: Fast multi-label core vector machine. Pattern Recognition 46(3), 2013, 885-898,
    doi:10.1016/j.patcog.2012.09.003.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import RankCVMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> Y = (X + 0.3 * rng.normal(size=(60, 3)) > 0).astype(int)
    >>> model = RankCVMClassifier(kernel="linear", random_state=0).fit(X, Y)
    >>> model.predict([[2.0, -1.0, 1.0]])
    array([[1, 0, 1]])
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    solver: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"solver": [StrOptions({"auto", "cd", "fw"})]}
    _constant = 1.0

    def _row_order(self, rows: np.ndarray, seed: int) -> np.ndarray:
        # Blocks of neighbouring rows are visited together, so neighbours should not be alike.
        return np.random.default_rng(seed).permutation(rows)

    def _packed(self, dual: Any, rows: np.ndarray, problem: RankProblem, Y: np.ndarray) -> Any:
        if self.solver == "fw":
            return None
        U, cost = Y.astype(np.float64), np.ones(len(Y))  # rows without pairs: exactly the margin
        U[rows], cost[rows] = dual, problem.cost
        return U, cost

    def _unpacked(self, dual: Any, rows: np.ndarray) -> Any:
        return (None, None) if dual is None else (dual[0][rows], dual[1][rows])

    def _needs_gram(self) -> bool:
        return self.solver == "fw"

    def _optimise(
        self, problem: RankProblem, kernel: KernelProducts | Gram, start: Any, control: Control, seed: int
    ) -> tuple[Result, np.ndarray]:
        if isinstance(kernel, Gram):
            n_threads = self._n_threads()
            result = solve_rank_cvm_fw(problem, kernel, control, cache_size=self.cache_size, n_threads=n_threads)
        else:
            U, cost = (None, None) if start is None else start
            newton = self.solver != "cd"
            result = solve_rank_cvm(problem, kernel, control, seed=seed, start=U, start_cost=cost, newton=newton)
        return result, result.coef.sum(axis=1)
