r"""What labels say about each other beyond scores that are known: a structured SVM on top of any classifiers.

With p_k the calibrated probabilities that classifier k gives on rows that it has not learned from, the labels of a row
have the blended log odds and the offsets

.. math:: b_l = \sum_k u_k \operatorname{logit} p_{kl}, \qquad o_l = s\, b_l, \qquad u \ge 0,\ \sum_k u_k = 1

with u by the log loss of the labels and s by their hinge loss. A structured SVM learns a correction of o: its features
are all log odds of the row, standardised and scaled by

.. math:: \sqrt{m_l / (m_l + M)}

with m_l the positives or the negatives of the label, whichever are fewer, so that columns of rare labels, which are
noise for the most part, say less. Its margins are in units of one wrong label. At the s of the least hinge loss the
blend as it is cannot be improved by stretching it, and as alpha grows the correction vanishes: labels are then on
where b_l > 0, whatever s is.

alpha is chosen on the parts that the rows were left out with, by the rows whose labels are all right. The blend itself,
alpha = inf, is kept unless a candidate is better by two standard errors of the difference, as it is the best of some,
at no higher Hamming loss.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..core.indicator import split_unknown
from ..core.threshold_rule import FloatArray, read_scores_and_labels
from ..graphs import LabelGraph
from ..model_selection import MultilabelStratifiedKFold
from ..structured import CGMClassifier, StructuredSVMClassifier
from .calibration import LabelCalibrator
from .decision_classifier import LabelDecisions


@dataclass(frozen=True)
class StructurePolicy:
    """Tuned numbers, chosen on emotions, flags, cal500 and enron."""

    alphas: tuple[float, ...] = (3.0, 1.0, 0.3, 0.1, 0.03)
    patience: int = 3  # candidates in a row that are no better than the best so far: smaller alphas cost the most
    errors: float = 2.0  # standard errors by which a correction must be better: with 1 noise gets one in three times
    folds: int = 5  # of rows that were all left out together
    fold_tol: float = 1e-2  # of the fits on folds
    most_odds: float = 6.0  # log odds beyond it, of one in 400, say the same
    rare: float = 20.0  # M: corrections of flags and emotions have more exact rows with it than without
    pooled_cells: int = 1_000_000  # most rows times labels that the blend is fitted to


POLICY = StructurePolicy()
Folds: TypeAlias = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


class ScoreStructure(BaseEstimator):
    """Labels from the scores of several classifiers, corrected by a structured SVM.

    Parameters
    ----------
    graph : {"learned", "tree", "none", "full"}, LabelGraph or sequence of cliques, default="learned"
        "learned" is that of `CGMClassifier`, the others as in `StructuredSVMClassifier`.
    alpha : "auto" or float, default="auto"
        Strength of the regulariser; ``numpy.inf`` is the blend of the classifiers, uncorrected.
    tol : float, default=1e-3
        Relative tolerance of the last fit.
    n_jobs : int or None, default=None
        Threads. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Fixes the order in which rows are visited.

    Attributes
    ----------
    n_labels_ : int
        Number of labels.
    calibrators_ : list of LabelCalibrator
        From the scores of each classifier to probabilities.
    blend_ : ndarray of shape (n_classifiers,)
        Weights u of the log odds.
    offset_scale_ : float
        s, the offset of log odds of one.
    center_, factor_ : ndarray of shape (n_classifiers * n_labels,)
        The features are the log odds minus ``center_``, times ``factor_``.
    alpha_ : float
        The strength that was given or chosen.
    tried_ : ndarray of shape (n_alphas, 4)
        For every alpha that was tried: alpha, how many more rows in one are all right than with the blend, the standard
        error of that, and by how much the Hamming loss is lower.
    structure_ : StructuredSVMClassifier, CGMClassifier or None
        The correction; None for ``alpha_ = inf``.
    base_loss_ : float
        Mean loss of the blend, the objective for ``alpha_ = inf``.
    decisions_ : LabelDecisions
        Probabilities and label sets of every aim, from decision values of rows that the correction has not learned
        from.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import ScoreStructure
    >>> rng = np.random.default_rng(0)
    >>> Y = (rng.random((200, 1)) < 0.5).astype(int) * [1, 1, 0] | (rng.random((200, 3)) < 0.1)
    >>> scores = [Y + rng.normal(size=Y.shape), Y + rng.normal(size=Y.shape)]
    >>> structure = ScoreStructure(alpha=0.1).fit(scores, Y)
    >>> structure.decision_values(scores).shape
    (200, 3)
    """

    def __init__(
        self,
        graph: Any = "learned",
        alpha: Any = "auto",
        *,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.graph = graph
        self.alpha = alpha
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, scores: list[Any], Y: Any, sample_weight: Any = None, parts: Any = None) -> Self:
        """Learn from held-out scores.

        Parameters
        ----------
        scores : list of array-like of shape (n_samples, n_labels)
            Finite scores of every classifier, of rows that it has not learned from.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows.
        parts : array-like of shape (n_samples,) or None
            Number of the part that each row was left out with; the correction is tried on the same parts. None, or one
            part only, is folds of the rows.

        Returns
        -------
        self : object
            The fitted structure.
        """
        check_alpha(self.alpha)
        read = [read_scores_and_labels(each, Y, sample_weight) for each in scores]
        scores, (_, indicator, weight) = [each for each, _, _ in read], read[0]  # of rows that have weight
        if parts is not None and sample_weight is not None:
            parts = np.asarray(parts)[np.asarray(sample_weight) > 0.0]
        if split_unknown(indicator, "Y")[1] is not None:
            raise ValueError(
                "Y has unknown cells (NaN), and label sets that are not known teach no structure: leave out "
                "these rows, or take DecisionClassifierCV or BlendedClassifier, which count known cells"
            )
        truth = indicator.toarray().astype(np.int64)
        self.n_labels_ = truth.shape[1]
        self.calibrators_ = [LabelCalibrator().fit(each, indicator, weight) for each in scores]
        odds = self._log_odds(scores)
        self.blend_ = _blend(odds, truth, weight)
        blended = np.tensordot(self.blend_, odds, 1)
        margins = (2.0 * truth - 1.0) * blended
        self.offset_scale_ = _hinge_scale(margins, weight)
        losses = np.maximum(1.0 - self.offset_scale_ * margins, 0.0).sum(axis=1)
        self.base_loss_ = float(weight @ losses / weight.sum())
        features = np.hstack(list(odds))
        self.center_ = np.average(features, axis=0, weights=weight)
        spread = np.sqrt(np.average((features - self.center_) ** 2, axis=0, weights=weight))
        positives = weight @ truth
        few = np.tile(np.minimum(positives, weight.sum() - positives), len(odds))
        useful = (spread > 1e-9) & (few > 0.0)
        self.factor_ = np.sqrt(few / (few + POLICY.rare)) / np.where(useful, spread, np.inf)
        X, offsets = (features - self.center_) * self.factor_, self.offset_scale_ * blended
        self.alpha_, held_out = self._choose(X, offsets, truth, weight, _folds(truth, parts))
        self.structure_ = None
        if np.isfinite(self.alpha_):
            self.structure_ = self._learner(self.alpha_, self.tol).fit_with_offsets(X, truth, offsets, weight)
        self.decisions_ = LabelDecisions("hamming_loss").fit(held_out, indicator, weight)
        return self

    def decision_values(self, scores: list[Any]) -> FloatArray:
        """Max-marginals: the score of the best labels with a label on minus that of the best with it off.

        Parameters
        ----------
        scores : list of array-like of shape (n_samples, n_labels)
            Scores of the classifiers, in the order of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Positive for labels that are on.
        """
        check_is_fitted(self)
        X, offsets = self._inputs(scores)
        return offsets if self.structure_ is None else self.structure_.decision_function(X, offsets=offsets)

    def predict(self, scores: list[Any]) -> NDArray[np.int64]:
        """The best labels together.

        Parameters
        ----------
        scores : list of array-like of shape (n_samples, n_labels)
            Scores of the classifiers, in the order of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        check_is_fitted(self)
        return _labels(self.structure_, *self._inputs(scores))

    @property
    def label_graph_(self) -> LabelGraph:
        """What labels say about each other beyond the scores; without edges where the blend is kept."""
        empty = np.zeros((self.n_labels_, self.n_labels_))
        return LabelGraph(empty) if self.structure_ is None else self.structure_.label_graph_

    @property
    def certificate(self) -> tuple[float, float]:
        """Primal and dual objective of the correction; the loss of the blend where that is kept."""
        if self.structure_ is None:
            return self.base_loss_, self.base_loss_
        return self.structure_.objective_, self.structure_.dual_objective_

    def _log_odds(self, scores: list[Any]) -> FloatArray:
        """Calibrated log odds (n_classifiers, n_samples, n_labels)."""
        pairs = zip(self.calibrators_, scores, strict=True)
        odds = np.stack([logit(calibrator.probabilities(each)) for calibrator, each in pairs])
        return np.clip(odds, -POLICY.most_odds, POLICY.most_odds)

    def _inputs(self, scores: list[Any]) -> tuple[FloatArray, FloatArray]:
        odds = self._log_odds(scores)
        features = (np.hstack(list(odds)) - self.center_) * self.factor_
        return features, self.offset_scale_ * np.tensordot(self.blend_, odds, 1)

    def _learner(self, alpha: float, tol: float) -> Any:
        shared = {"tol": tol, "n_jobs": self.n_jobs, "random_state": self.random_state}
        if isinstance(self.graph, str) and self.graph == "learned":
            return CGMClassifier(alpha, cliques_per_round=2, max_cliques=self.n_labels_, **shared)
        return StructuredSVMClassifier(alpha, graph=self.graph, **shared)

    def _choose(
        self, X: FloatArray, offsets: FloatArray, truth: NDArray[np.int64], weight: FloatArray, folds: Folds
    ) -> tuple[float, FloatArray]:
        """The alpha, and decision values of rows that the correction has not learned from."""
        auto = isinstance(self.alpha, str)
        base, tried, held_out = offsets > 0, [], {np.inf: offsets}
        best, best_gain, useless = np.inf, 0.0, 0
        for alpha in POLICY.alphas if auto else [self.alpha] if np.isfinite(self.alpha) else []:
            values, on = np.empty(offsets.shape), np.empty(offsets.shape, dtype=np.int64)
            for train, test in folds:
                model = self._learner(alpha, max(self.tol, POLICY.fold_tol))
                with warnings.catch_warnings():  # the last fit warns
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit_with_offsets(X[train], truth[train], offsets[train], weight[train])
                values[test] = model.decision_function(X[test], offsets=offsets[test])
                on[test] = _labels(model, X[test], offsets[test])
            held_out[alpha] = values
            right = (on == truth).all(axis=1).astype(float) - (base == truth).all(axis=1)
            gain = np.average(right, weights=weight)
            error = np.sqrt(np.average((right - gain) ** 2, weights=weight) / np.count_nonzero(weight))
            fewer_wrong = np.average(np.mean((base != truth).astype(float) - (on != truth), axis=1), weights=weight)
            tried.append([alpha, gain, error, fewer_wrong])
            if gain > best_gain and gain >= POLICY.errors * error and fewer_wrong >= 0.0:
                best, best_gain, useless = alpha, gain, 0
            else:
                useless += 1
                if useless >= POLICY.patience and auto:
                    break
        self.tried_ = np.array(tried).reshape(-1, 4)
        chosen = best if auto else float(self.alpha)
        return chosen, held_out[chosen]


def _labels(structure: Any, X: FloatArray, offsets: FloatArray) -> NDArray[np.int64]:
    on = offsets > 0 if structure is None else structure.predict(X, offsets=offsets)
    return np.asarray(on, dtype=np.int64)


def _folds(truth: NDArray[np.int64], parts: Any) -> Folds:
    """Training and test rows: of the given parts, if there are several."""
    if parts is not None:
        numbers = np.unique(parts)
        if len(numbers) > 1:
            return [(np.flatnonzero(parts != number), np.flatnonzero(parts == number)) for number in numbers]
    return list(MultilabelStratifiedKFold(min(POLICY.folds, len(truth))).split(truth, truth))


def check_alpha(alpha: Any) -> None:
    """Raise unless alpha is "auto" or a positive number."""
    is_number = isinstance(alpha, int | float | np.number) and not isinstance(alpha, bool) and alpha > 0.0
    if not is_number and not (isinstance(alpha, str) and alpha == "auto"):
        raise ValueError(f'alpha must be "auto" or a positive number, inf for no correction; got {alpha!r}.')


def _blend(odds: FloatArray, truth: NDArray[np.int64], weight: FloatArray) -> FloatArray:
    """Convex weights u of the classifiers, by the log loss of the labels: a convex problem."""
    n = len(odds)
    if n == 1:
        return np.ones(1)
    rows = slice(None, None, -(-truth.size // POLICY.pooled_cells))
    signed = (2.0 * truth[rows] - 1.0) * odds[:, rows]
    share = weight[rows] / (weight[rows].sum() * truth.shape[1])

    def loss(u: FloatArray) -> tuple[float, FloatArray]:
        margins = np.tensordot(u, signed, 1)
        slope = -np.einsum("i,il,kil->k", share, expit(-margins), signed)
        return float(share @ np.logaddexp(0.0, -margins).sum(axis=1)), slope

    total = {"type": "eq", "fun": lambda u: u.sum() - 1.0, "jac": lambda u: np.ones(n)}
    found = minimize(
        loss, np.full(n, 1.0 / n), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * n, constraints=[total],
        options={"ftol": 1e-9},
    )  # fmt: skip
    u = np.maximum(found.x, 0.0)
    return u / u.sum()


def _hinge_scale(margins: FloatArray, weight: FloatArray) -> float:
    """The s > 0 with the least sum of max(0, 1 - s m), which is convex and has its minimum where some s m = 1."""
    m, w = margins.ravel(), np.repeat(weight, margins.shape[1])
    right = (m > 0.0) & (w > 0.0)
    if not right.any():
        return 1.0
    order = np.argsort(-m[right], kind="stable")  # the largest margins reach 1 first
    m_right, w_right = m[right][order], w[right][order]
    slope = np.cumsum(w_right * m_right) - w @ m
    place = min(int(np.searchsorted(slope, 0.0)), len(m_right) - 1)
    return float(1.0 / m_right[place])
