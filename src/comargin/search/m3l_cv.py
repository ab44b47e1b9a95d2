"""M3L with C chosen by cross-validation along a warm-started path."""

from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..core.estimator import Interval
from ..core.kernel_functions import kernel_function
from ..core.validation import TrainingData
from ..m3l.classifier import M3LClassifier
from .path_cv import PathSearch

# Range of the default Cs, times 1 / mean_i K_ii. With micro-F1 the best C of 13 published data sets lies between 0.1
# and 30: with dense, standardised features 0.1 to 10 (cal500, digits, emotions, flags, mediamill, scene, yeast), with
# sparse ones 3 to 30 (bibtex, corel5k, enron, plant, rcv1subset1, tmc2007-500). A wider range costs more than it finds:
# the largest C take most of the time.
_RANGE = (0.05, 50.0)
# From this many dual variables on the folds have a larger tolerance, this many times ``tol``. The gap is nearly all
# primal: at 5 % the dual is within 0.3 % of the optimum (text, bibtex) and the chosen C is as good. With a hundred rows
# it need not be.
_LARGE, _LOOSE = 100_000, 50.0


class M3LClassifierCV(PathSearch, M3LClassifier):
    r"""`M3LClassifier` that chooses C by cross-validation.

    Every fold is fitted for all values of C, from the smallest to the largest, each fit started from the solution of
    the one before; the held-out rows are scored. The C with the best mean score is then fitted on all rows, which gives
    an `M3LClassifier` with that C and its certificate.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of C to try. An integer is the number of values, evenly spaced on a log scale, from 0.05 / q to 50 / q
        with q the mean of :math:`k(x_i, x_i)`, the squared lengths of the rows (plus 1 with
        ``fit_intercept``), rounded to three digits.
    {cv} {scoring}
        See the Notes for why micro-F1.
    {refit}
    kernel, gamma, degree, coef0, label_correlation, loss : object
    fit_intercept, intercept_scaling, class_weight, solver : object
        As in `M3LClassifier`, and the same for all values of C. gamma "scale", label_correlation "train" and
        class_weight "balanced" are computed from the training part of every fold.
    cache_size : float, default=1000
        Megabytes of memory for rows of the kernel matrix, shared evenly by the folds, also when ``n_jobs`` is 1: the
        result must not depend on it.
    path_tol : float or None, default=None
        Relative tolerance of the fits in the folds; None is ten times ``tol``, and 50 times from 100000
        entries of y on: choosing needs less than the last fit (see Notes).
    tol : float, default=1e-3
        Relative tolerance of the last fit.
    max_iter : int, default=1000
        Most passes of every fit. One ``ConvergenceWarning`` counts the fits for which they did not suffice.
    n_jobs : int, default=None
        Threads: over the folds, then over blocks of labels in the last fit. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Fixes the order in which rows are visited; the same in all fits. It has no influence on the folds.
    {verbose} {callback}

    Attributes
    ----------
    C_ : float
        The best C; the smallest of several equally good ones.
    Cs_ : ndarray of shape (n_Cs,)
        Values tried, ascending, each once.
    {scores_} {best_index_} {best_score_} {converged_}
    coef_, intercept_, objective_, n_iter_, ... : object
        All attributes of `M3LClassifier`, from the last fit.

    Notes
    -----
    Why micro-F1: it judges the label sets that ``predict`` returns, counts every label, and rare labels do not make it
    noisy. Subset accuracy is near 0 for every C when there are many labels; the Hamming loss of rare labels is best
    when none is predicted; macro-F1 depends on labels with a handful of positives. Measures of rankings prefer a C so
    small that few scores are positive: take one (``scoring="average_precision"``) when another rule than ``score > 0``
    makes label sets of the scores, e.g. :class:`~comargin.decisions.ThresholdClassifierCV` around this. For classes,
    micro-F1 is the accuracy.

    Why a coarse ``path_tol``: the loss by a C that was chosen at a larger gap is far below the spread of the folds when
    there are many rows, but not always when there are few (``benchmarks/bench_m3l_search.py``).

    A fold whose score is not finite for some C (a measure that is undefined on its rows) is left out of the mean.
    Memory: each thread holds a copy of its fold's training rows and the dual variables of one fit.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import M3LClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 10))
    >>> Y = (X[:, :4] + rng.normal(size=(300, 4)) > 1.0).astype(int)
    >>> model = M3LClassifierCV(Cs=[0.01, 0.1, 1.0], random_state=0).fit(X, Y)
    >>> model.C_
    1.0
    >>> model.scores_.shape
    (5, 3)
    >>> model.predict(X[:1]).shape
    (1, 4)
    """

    Cs: Any = field(default=10, kw_only=False)
    C: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "Cs": [Interval(Integral, 2, None, closed="left"), "array-like"]
    }
    _learner = M3LClassifier

    def _default_values(self, data: TrainingData, count: int) -> np.ndarray:
        X = data.X[:, : self.n_features_in_]  # without the constant feature, which counts as 1 here
        function = kernel_function(self.kernel, self.gamma, self.degree, self.coef0, X)
        lengths = function.gram(X, constant=float(self.fit_intercept)).diagonal
        scale = float(np.average(lengths, weights=data.sample_weight)) or 1.0
        return np.array([float(f"{C:.3g}") for C in np.geomspace(*_RANGE, count) / scale])

    def _path_tol(self, data: TrainingData) -> float:
        loose = self.path_tol is None and data.Y.size >= _LARGE
        return _LOOSE * self.tol if loose else super()._path_tol(data)
