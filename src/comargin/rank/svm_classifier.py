"""Rank-SVM: the support vector machine that ranks labels."""

from typing import Any

import numpy as np

from ..core.gram import Gram
from ..core.loop import Control
from ..core.result import Result
from ._products import KernelProducts
from .classifier import RankClassifier
from .problem import RankProblem
from .svm_solver import solve_rank_svm


class RankSVMClassifier(RankClassifier):
    r"""Support vector machine that ranks labels (Rank-SVM), with free biases.

    .. math:: \min_{w, b}\ \tfrac12 \sum_k \|w_k\|^2 + C \sum_i \frac{1}{|L_i| |N_i|}
              \sum_{m \in L_i, n \in N_i} \max(0, 1 - f_m(x_i) + f_n(x_i)), \qquad f_k(x) = w_k^\top x + b_k

    with :math:`L_i` and :math:`N_i` the labels that are on and off in row i. Label sets are read off the ranking by a
    threshold t(x) that is linear in the scores (:class:`~comargin.decisions.RankSVMCut`); ``decision_function`` is
    f(x) - t(x), ``rank_scores`` is f(x).

    Parameters
    ----------
    {C} {kernel} {gamma} {degree} {coef0} {cache_size} {tol}
    max_iter : int, default=1000
        Most proximal steps, each solved by Newton's method, with a ``ConvergenceWarning`` at the limit.
    {n_jobs}
    random_state : int, RandomState instance or None, default=None
        Not used: the solver is deterministic.
    {verbose} {callback} {warm_start}

    Attributes
    ----------
    {support_} {n_support_} {support_vectors_} {dual_coef_}
    intercept_ : ndarray of shape (n_labels,)
        b, from the optimality conditions. A constant common to all labels changes nothing; here their mean is 0.
    {coef_} {threshold_} {n_skipped_} {objective_} {history_}
    n_iter_ : int
        Proximal steps done.
    {classes_} {n_features_in_} {feature_names_in_}

    Notes
    -----
    Each pair of labels of each row has a dual variable, 24 bytes in all. `RankCVMClassifier` lists no pairs, is several
    times faster and ranks about as well.

    References
    ----------
    A. Elisseeff, J. Weston: A kernel method for multi-labelled classification. NIPS 2001, 681-687.

    J. Xu: Fast multi-label core vector machine. Pattern Recognition 46(3), 2013, 885-898, Eq. (18) and (19),
    doi:10.1016/j.patcog.2012.09.003.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import RankSVMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> Y = (X + 0.3 * rng.normal(size=(60, 3)) > 0).astype(int)
    >>> model = RankSVMClassifier(kernel="linear").fit(X, Y)
    >>> model.predict([[2.0, -1.0, 1.0]])
    array([[1, 0, 1]])
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    _constant = 0.0

    def _optimise(
        self, problem: RankProblem, kernel: KernelProducts | Gram, start: Any, control: Control, seed: int
    ) -> tuple[Result, np.ndarray]:
        assert not isinstance(kernel, Gram)
        return solve_rank_svm(problem, kernel, control, start=start)
