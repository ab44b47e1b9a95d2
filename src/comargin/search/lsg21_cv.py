"""LSG21 with alpha chosen by cross-validation along a warm-started path."""

from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from ..core.estimator import Interval
from ..core.loop import Control
from ..core.validation import TrainingData
from ..lsg21.classifier import LSG21Classifier, largest_alpha
from .path_cv import PathSearch


class LSG21ClassifierCV(PathSearch, LSG21Classifier):
    """`LSG21Classifier` that chooses alpha by cross-validation.

    Every fold is fitted for all values of alpha, from the largest to the smallest, each fit started from the weights of
    the one before; the held-out rows are scored. The alpha with the best mean score is then fitted on all rows, which
    gives an `LSG21Classifier` with that alpha and its certificate.

    Parameters
    ----------
    alphas : int or array-like of float, default=20
        Values of alpha to try. An integer is the number of values, evenly spaced on a log scale, from ``alpha_max_``,
        where all weights become zero, down to ``alpha_ratio`` times that.
    alpha_ratio : float, default=1e-4
        The smallest default alpha, as a fraction of the largest. In (0, 1).
    {cv} {scoring}
        Take a measure of rankings ("average_precision") when another rule than f >= 0.5 makes the label sets.
    {refit}
    affinity, edge_threshold, self_edges, fit_intercept, solver : object
        As in `LSG21Classifier`. The affinity "cosine" is computed from the training part of every fold.
    path_tol : float or None, default=None
        Relative tolerance of the fits in the folds; None is ten times ``tol``.
    tol : float, default=1e-6
        Relative tolerance of the last fit.
    max_iter : int, default=1000
        Most steps of every fit. One ``ConvergenceWarning`` counts the fits for which they did not suffice.
    n_jobs : int, default=None
        Threads over the folds. The result is the same for any number.
    {random_state} {verbose} {callback}

    Attributes
    ----------
    alpha_ : float
        The best alpha; the largest of several equally good ones.
    alphas_ : ndarray of shape (n_alphas,)
        Values tried, descending, each once.
    alpha_max_ : float
        The smallest alpha for which all weights are zero, on all rows.
    {scores_} {best_index_} {best_score_} {converged_}
    coef_, intercept_, objective_, n_iter_, ... : object
        All attributes of `LSG21Classifier`, from the last fit.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import LSG21ClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> Y = (X[:, :3] + X[:, 1:4] > 0).astype(int)
    >>> model = LSG21ClassifierCV(alphas=5).fit(X, Y)
    >>> model.scores_.shape, bool(model.alphas_[0] == model.alpha_max_)
    ((5, 5), True)
    """

    alphas: Any = field(default=20, kw_only=False)
    alpha: float = field(init=False)
    alpha_ratio: float = 1e-4
    tol: float = 1e-6

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alphas": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "alpha_ratio": [Interval(Real, 0, 1, closed="neither")],
    }
    _learner = LSG21Classifier

    def _solve(self, data: TrainingData, start: Any, control: Control) -> tuple[Any, dict[str, Any]]:
        self._largest = largest_alpha(self, data)
        try:
            result, attributes = super()._solve(data, start, control)
            return result, attributes | {"alpha_max_": self._largest}
        finally:
            del self._largest

    def _default_values(self, data: TrainingData, count: int) -> np.ndarray:
        # Constant or unpenalised labels only: any value does.
        largest = self._largest or 1.0
        return largest * np.geomspace(1.0, self.alpha_ratio, count)
