"""PrBR: one SVM per label, whose slacks are explained by the other labels."""

from dataclasses import field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.estimator import Interval, LinearMultilabelClassifier
from ..core.loop import Control
from ..core.result import Result
from ..core.row_blocks import squared_lengths
from ..core.validation import TrainingData, loop_view
from ..m3l.prior import identity_prior
from .problem import PrivilegedSets, SlackDual, SVMPlusProblem, nearest_labels
from .step_solver import solve_svm_plus

# Scores that are all below this are zero: margins are measured against 1.
_NO_SCORE = 1e-6


class PrivilegedClassifier(LinearMultilabelClassifier):
    """What PrBR and PrML share: costs, privileged features and their parameters.

    Parameters
    ----------
    C : float, default=1.0
        Cost of slack.
    gamma2 : float, default=1.0
        Regularisation of the privileged weights.
    n_privileged : int or None, default=None
        How many other labels are privileged features of a label: the nearest in Hamming distance, of the rows where
        both are known. None means all.
    privileged_intercept : bool, default=True
        Add a constant privileged feature, which makes the problem feasible whatever the data. False is the literal form
        of the paper; when that has no feasible point, ``fit`` raises a ``ValueError`` that names the labels. It
        also does where features are so small or large that none is found.

    Attributes
    ----------
    privileged_coef_ : ndarray of shape (n_labels, n_labels)
        Row i has the privileged weights of label i; on the diagonal that of the constant.
    """

    C: float = field(default=1.0, kw_only=False)
    gamma2: float = 1.0
    n_privileged: int | None = None
    privileged_intercept: bool = True
    class_weight: str | dict[Any, float] | list[dict[int, float]] | None = None

    _takes_unknown = True
    # Advice that ends the warning that all predictors are zero.
    _advice_on_zeros: ClassVar[str] = "Increase C or change gamma2"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma2": [Interval(Real, 0, None, closed="neither")],
        "n_privileged": [None, Interval(Integral, 0, None, closed="left")],
        "privileged_intercept": ["boolean"],
    }

    def _privileged_sets(self, S: np.ndarray, row_weight: np.ndarray) -> PrivilegedSets:
        """Privileged features of the distinct label sets."""
        mask = None
        if self.n_privileged is not None:
            most = S.shape[1] - 1
            if self.n_privileged > most:
                raise ValueError(
                    f"n_privileged must be at most {most}, the number of other labels, or None for all; got "
                    f"{self.n_privileged}"
                )
            mask = nearest_labels(S, self.n_privileged, row_weight)
        return PrivilegedSets.of(S, mask, intercept=self.privileged_intercept)

    def _warn_of_zeros(self, coef: np.ndarray, data: TrainingData, control: Control) -> None:
        """Have the fit warn if all predictors are zero."""
        longest = float(np.sqrt(np.max(squared_lengths(data.X))))
        if longest * float(np.max(np.linalg.norm(coef, axis=1))) <= _NO_SCORE:
            text = (
                f"{type(self).__name__}: all predictors are zero, as none saves as much slack as it costs. "
                f"{self._advice_on_zeros}; if nothing helps, rows with equal label sets overlap too much for this model"
            )
            control.warnings.append(UserWarning(text))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Rows of a class have one label set, hence one slack, that of the worst: classes that overlap are not learned.
        tags.classifier_tags.poor_score = True
        return tags


class PrBRStart(NamedTuple):
    dual: SlackDual
    shape: tuple[int, int]


class PrBRClassifier(PrivilegedClassifier):
    r"""Binary relevance with privileged information: other labels tell how much slack a row may have.

    .. math:: \min \tfrac12 \sum_i \|z_i\|^2 + \tfrac{\gamma_2}2 \sum_i \|\tilde w_i\|^2 + C \sum_{ij} \xi_{ij},
        \quad \xi_{ij} = \langle \tilde w_i, \tilde y_{ij} \rangle \ge 0, \quad S_{ij} z_i^\top x_j \ge 1 - \xi_{ij}

    The slack of row j for label i is a linear function of the row's other labels: rows with equal label sets have the
    same slack, that of the worst of them. Convex, one problem per label, solved to a certified gap.

    Parameters
    ----------
    {C} {gamma2} {n_privileged} {privileged_intercept} {fit_intercept} {class_weight} {tol}
    max_iter : int, default=200
        Most rounds of passes and updates of the multipliers.
    {n_jobs} {random_state} {verbose} {callback} {warm_start}

    Attributes
    ----------
    {coef_} {intercept_} {privileged_coef_} {objective_} {history_} {n_iter_}
    {classes_} {n_features_in_} {feature_names_in_}

    References
    ----------
    S. You, C. Xu, Y. Wang, C. Xu, D. Tao: Privileged multi-label learning. IJCAI 2017, arXiv:1701.07194.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import PrBRClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> Y = (X + 0.1 * rng.normal(size=(60, 3)) > 0).astype(int)
    >>> model = PrBRClassifier(C=0.1, random_state=0).fit(X, Y)
    >>> model.predict([[2.0, -1.0, 1.0]])
    array([[1, 0, 1]])
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    max_iter: int = 200

    def _solve(self, data: TrainingData, start: PrBRStart | None, control: Control) -> tuple[Result, dict[str, Any]]:
        row_weight, label_weight = self._weights(data)
        S = data.signs
        sets = self._privileged_sets(S, data.sample_weight)
        if start is not None and len(start.dual.B) != len(sets.sets):
            raise ValueError(
                f"warm_start=True continues on the same labels: the fit before had {len(start.dual.B)} distinct label "
                f"sets, y now has {len(sets.sets)}. Pass the same labels, or clone the estimator"
            )
        prior = identity_prior(S.shape[1])[0]
        problem = SVMPlusProblem(data.X, S, self.C * row_weight, label_weight, prior, self.gamma2, sets)
        result = solve_svm_plus(
            problem,
            loop_view(data.X),
            control.packing(lambda dual: PrBRStart(dual, S.shape)),
            seed=self._seeds(1)[0],
            n_threads=self._n_threads(),
            start=None if start is None else start.dual,
        )
        self._warn_of_zeros(result.coef, data, control)
        attributes = self._linear_attributes(result.coef) | {"privileged_coef_": result.privileged}
        return replace(result, dual_coef=PrBRStart(result.dual_coef, S.shape)), attributes
