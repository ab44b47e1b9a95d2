"""PrML: low-rank predictors with the other labels as privileged information."""

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.estimator import Interval
from ..core.loop import Control
from ..core.result import Result
from ..core.validation import TrainingData, loop_view
from .prbr_classifier import PrivilegedClassifier
from .prml_solver import PrMLState, solve_prml
from .problem import PrMLProblem

# 0.28 * 25 must count as 7 in spite of rounding.
_ROUNDING = 1e-9


class PrMLStart(NamedTuple):
    point: PrMLState
    shape: tuple[int, int]


class PrMLClassifier(PrivilegedClassifier):
    r"""Privileged multi-label learning: predictors of low rank, slacks explained by the other labels.

    .. math:: \min_{D, W, \tilde W} \tfrac12 \|D\|^2 + \tfrac{\gamma_1}2 \|W\|^2 + \tfrac{\gamma_2}2 \|\tilde W\|^2
        + C \sum_{ij} \xi_{ij}, \quad \xi_{ij} = \langle \tilde w_i, \tilde y_{ij} \rangle \ge 0, \quad
        S_{ij} \langle D^\top w_i, x_j \rangle \ge 1 - \xi_{ij}

    as in `PrBRClassifier`, with predictors :math:`z_i = D^\top w_i`. Solved by turns for (W, \tilde W) and (D,
    \tilde W), each a convex problem with a certificate; the objective never rises.

    Parameters
    ----------
    {C}
    gamma1 : float, default=1.0
        Regularisation of the codes W.
    {gamma2}
    rank : float or int, default=0.9
        Rows k of the dictionary: a fraction of the number of labels in (0, 1], rounded up, or a number.
    {n_privileged} {privileged_intercept}
    n_init : int, default=1
        Starts; the fit with the best objective is kept. The first begins with the singular vectors of PrBR's
        predictors, the others with random mixtures of them.
    {fit_intercept} {class_weight}
    tol : float, default=1e-3
        Relative tolerance of the objective: the fit ends when the last alternation lowered it by no more and, by
        certificates, neither (W, \tilde W) with D held nor (D, \tilde W) with W held can. The privileged weights are
        then within ``sqrt(2 tol objective_ / gamma2)`` of the best ones of either step, which may be a tenth of their
        length at the default: take a smaller ``tol`` where they matter.
    max_iter : int, default=100
        Most alternations.
    {n_jobs}
    random_state : int, RandomState instance or None, default=None
        Fixes the starts.
    {verbose}
    callback : callable, default=None
        Called with the ``Checkpoint`` of every alternation and, from the first feasible point on, every few seconds
        with that of the step under way (``n_iter`` is that of the alternation before); returning True ends the fit.
    warm_start : bool, default=False
        Start from the solution of the fit before (same rows, features, labels and rank; only its dictionary counts when
        X is another). A fit of the same problem that ``callback`` stopped goes on from there, after an alternation
        exactly as without the stop: ``history_`` and ``n_iter_`` count from its beginning.

    Attributes
    ----------
    dictionary_ : ndarray of shape (k, n_features)
        D, without the constant feature.
    dictionary_intercept_ : ndarray of shape (k,)
        Column of the constant feature in D; zero without intercept.
    codes_ : ndarray of shape (k, n_labels)
        W: ``coef_ = codes_.T @ dictionary_``.
    {coef_} {intercept_} {privileged_coef_}
    objective_ : float
        The objective, which is not convex.
    dual_objective_, duality_gap_ : float
        The certificate of the last convex step: with W held, no dictionary and privileged weights are below
        ``dual_objective_`` (with D held, no W, if ``callback`` ended the fit within that step).
    lower_bound_ : float
        No solution of any rank has an objective below this.
    history_ : list of Checkpoint
        One per alternation, and the last point of a fit that ``callback`` ended within one; the objective never rises.
    n_iter_ : int
        Alternations done, those under way not counted.
    {classes_} {n_features_in_} {feature_names_in_}

    References
    ----------
    S. You, C. Xu, Y. Wang, C. Xu, D. Tao: Privileged multi-label learning. IJCAI 2017, arXiv:1701.07194.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import PrMLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> Y = (X + 0.1 * rng.normal(size=(60, 3)) > 0).astype(int)
    >>> model = PrMLClassifier(rank=2, random_state=0).fit(X, Y)
    >>> model.dictionary_.shape, model.codes_.shape
    ((2, 3), (2, 3))
    >>> bool(model.lower_bound_ <= model.objective_)
    True
    """

    gamma1: float = 1.0
    rank: float = 0.9
    n_init: int = 1
    max_iter: int = 100

    _advice_on_zeros: ClassVar[str] = "Increase C, decrease gamma1, or change gamma2"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gamma1": [Interval(Real, 0, None, closed="neither")],
        "rank": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="right")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
    }

    def _solve(self, data: TrainingData, start: PrMLStart | None, control: Control) -> tuple[Result, dict[str, Any]]:
        row_weight, label_weight = self._weights(data)
        S = data.signs
        sets = self._privileged_sets(S, data.sample_weight)
        problem = PrMLProblem(data.X, S, self.C * row_weight, label_weight, self.gamma1, self.gamma2, sets)
        rank = self.rank if isinstance(self.rank, Integral) else max(1, math.ceil(self.rank * S.shape[1] - _ROUNDING))
        shape = (int(rank), data.X.shape[1])
        if start is not None and start.point.dictionary.shape != shape:
            raise ValueError(
                f"warm_start=True continues with the same rank and features: the dictionary before has shape "
                f"{start.point.dictionary.shape}, now it would be {shape}"
            )
        result = solve_prml(
            problem,
            loop_view(data.X),
            control.packing(lambda point: PrMLStart(point, S.shape)),
            rank=shape[0],
            seeds=self._seeds(self.n_init),
            n_threads=self._n_threads(),
            start=None if start is None else start.point,
        )
        self._warn_of_zeros(result.coef, data, control)
        D = result.dictionary
        attributes = self._linear_attributes(result.coef) | {
            "dictionary_": np.ascontiguousarray(D[:, : self.n_features_in_]),
            "dictionary_intercept_": D[:, -1].copy() if self.fit_intercept else np.zeros(len(D)),
            "codes_": result.codes,
            "privileged_coef_": result.privileged,
            "lower_bound_": result.lower_bound,
        }
        return replace(result, dual_coef=PrMLStart(result.kept, S.shape)), attributes
