"""The model that needs no name: candidates are tried, tuned and blended by their held-out probabilities."""

import warnings
from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRouter

from ..core.estimator import MultilabelClassifier
from ..core.memory import Memory, StopRequest, fit_clone, silent_clone
from ..core.row_blocks import take_rows
from ..core.threshold_rule import FloatArray
from ..decisions import DecisionClassifierCV, LabelDecisions
from ..decisions.aims import check_aim
from ..decisions.blending import BlendedClassifier
from ..decisions.cross_fit import cross_fit, splits_of
from ..model_selection import MultilabelStratifiedShuffleSplit
from ._candidates import candidates_for, made_ready
from ._trials import Contender, Tournament, Trial
from .budget import Purse, parse_budget

# Of more than twice as many rows so many are tried first, and only the members of their blend on all rows.
FIRST_ROWS = 4000
_DENSE_CELLS = 10_000_000


class Choice(NamedTuple):
    """What the trials led to: all that the last fit needs."""

    ready: list[tuple[str, Any]]  # fitted transformers
    members: list[tuple[str, Any]]  # not fitted
    weights: FloatArray
    calibrators: list[Any]
    trials: list[Trial]
    n_fits: int  # of folds, in the search


class AutoClassifier(DecisionClassifierCV):
    r"""The best model for a named measure, without naming a model.

    Candidates that suit the data are fitted on one split into folds. Each begins in the middle of its parameters'
    values; then the neighbours of its best values are tried, until none is better. What counts is the log loss of
    out-of-fold probabilities, each calibrated on other rows. Their log odds are blended with weights :math:`w \ge 0`,
    :math:`\sum_m w_m = 1` that minimise it; members with less than a tenth of the largest weight are left out. From the
    blend, which is calibrated as it is, come label sets for every aim and promises, as in `DecisionClassifierCV`. Then
    the members are fitted on all rows.

    Texts, and sparse features without negative values, become TF-IDF; dense features are standardised.

    Parameters
    ----------
    candidates : list or None, default=None
        Names of `comargin.training.model_names`, `ModelRecipe` or pairs of a name and an estimator. None:
        "m3l", "knn", "m3l-rbf" and "extra-trees", and on dense features "forest", as far as sizes allow.
    {aim} {guarantee} {confidence} {certified_share}
    budget : str, float or None, default=None
        When the search ends: "20 fits" of folds, which gives the same result everywhere, or a time such as "90s", "5m"
        or "1h" (a number: seconds). The first trial, and one that has begun, is finished; the fits of the chosen
        members on all rows come on top of a number of fits. None: when no neighbour is left.
    tune : bool, default=True
        False tries every candidate in the middle of its parameters' values only.
    cv : int, float, splitter or iterable of (train, test), default=3
        The split into folds, the same for all candidates: as in `DecisionClassifierCV`, but not "prefit".
    {n_jobs} {random_state}
        It also seeds the candidates, and draws the rows that are tried first.

    Attributes
    ----------
    trials_ : list of Trial
        What was tried: model, parameters, rows, log loss, value of the aim, seconds, and the weight in the blend.
    budget_ : str
        The budget in fits that repeats this search.
    members_ : list of (str, estimator)
        Names and fitted estimators of the members.
    weights_ : ndarray of shape (n_members,)
        Their weights, which sum to one.
    {estimator_} {rule_} {promise_} {classes_} {n_features_in_} {target_form_}

    Notes
    -----
    Of more than 8000 rows 4000 are tried first, and only the members of their blend are fitted on folds of all rows.
    Transformers are fitted once, on all rows without their labels. A label correlation is tried up to 1000 labels,
    kernels up to 10000 rows, neighbours up to 50000, trees up to 200000 cells of the indicator.

    Decisions are learned from the same out-of-fold scores that chose the members, which makes them a little too
    confident; a guarantee does not rest on that, as its rows are set aside before.

    References
    ----------
    R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes. Ensemble selection from libraries of models. ICML 2004.

    Examples
    --------
    >>> from comargin import AutoClassifier
    >>> from comargin.data import make_correlated
    >>> data = make_correlated(200, n_features=5, n_labels=3, seed=0)
    >>> model = AutoClassifier(aim="subset_accuracy", budget="6 fits", random_state=0).fit(data.X, data.Y)
    >>> [(trial.model, trial.rows) for trial in model.trials_]
    [('m3l', 200), ('knn', 200)]
    >>> model.predict(data.X, aim="hamming_loss").shape
    (200, 3)
    """

    estimator: Any = field(default=None, init=False)  # there is none to wrap
    refit: bool = field(default=True, init=False)
    candidates: Any = field(default=None, kw_only=False)
    budget: Any = None
    tune: bool = True

    @property
    def members_(self) -> list[tuple[str, Any]]:
        """Names and fitted estimators of the members."""
        inside = self._inside()
        if isinstance(inside, BlendedClassifier):
            return [(name, fitted) for (name, _), fitted in zip(inside.members, inside.members_, strict=True)]
        return [(next(trial.model for trial in self.trials_ if trial.weight), inside)]

    @property
    def weights_(self) -> FloatArray:
        """Weights of the members, which sum to one."""
        inside = self._inside()
        return inside.weights_ if isinstance(inside, BlendedClassifier) else np.ones(1)

    def _new_rule(self, chosen: Choice | None = None) -> LabelDecisions:
        return LabelDecisions(self.aim, log_odds=chosen is not None and len(chosen.members) > 1)

    def _inside(self) -> Any:
        return self.estimator_[-1] if isinstance(self.estimator_, Pipeline) else self.estimator_

    def _held_out(
        self, X: Any, y: Any, Y: Any, groups: Any, params: dict[str, Any], memory: Memory, show: Callable[[str], None]
    ) -> tuple[Choice, FloatArray, Any]:
        """The choice, its out-of-fold scores, and their rows."""
        check_aim(self.aim, Y.shape[1])
        splits = splits_of(self.cv, X, y, groups, self.random_state)
        seed, weight = self._seed(), params.get("sample_weight")
        ready, Z = made_ready(X, weight)
        y = _for_all(y)
        candidates = candidates_for(self.candidates, Z, Y, seed, weight is not None)
        n_samples, n_first = Y.shape[0], FIRST_ROWS
        all_rows = np.arange(n_samples)
        rows = all_rows
        if n_samples > 2 * n_first:
            chosen = MultilabelStratifiedShuffleSplit(1, train_size=n_first, random_state=seed).split(Y, Y)
            rows = np.sort(next(chosen)[0])

        def tournament(rows: Any, trials: list[Trial]) -> Tournament:
            part = params if weight is None else params | {"sample_weight": np.asarray(weight)[rows]}
            folds = [(np.flatnonzero(np.isin(rows, a)), np.flatnonzero(np.isin(rows, b))) for a, b in splits]
            order = np.concatenate([test for _, test in folds])
            Z_part = Z if len(rows) == n_samples else take_rows(Z, rows)

            def held_out(estimator: Any, memory: Memory) -> FloatArray:
                return cross_fit(silent_clone(estimator), Z_part, y[rows], Y[rows], folds, part, self.n_jobs, memory)[1]

            return Tournament(
                held_out, Y[rows][order], part.get("sample_weight", np.ones(len(rows)))[order], self.aim, memory, show,
                trials,
            )  # fmt: skip

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last fit has its say
            trials: list[Trial] = []
            judged = tournament(rows, trials)
            purse = Purse(parse_budget(self.budget), len(splits), n_samples / len(rows))
            known = judged.run(candidates, purse, self.tune)
            n_fits = len(splits) * len(trials)
            if len(rows) < n_samples:
                found = judged.blend(known)[0]
                judged = tournament(all_rows, trials)
                known = [Contender(one.candidate) for one in found]
                for contender, before in zip(known, found, strict=True):
                    judged.attempt(contender, before.place)
            members, weights = judged.blend(known)
        for member, share in zip(members, weights, strict=True):
            member.trial.weight = float(share)
        choice = Choice(
            ready, [(one.candidate.name, one.estimator()) for one in members], weights,
            [one.calibrator for one in members], trials, n_fits,
        )  # fmt: skip
        memory.keep("best/blend", choice._asdict() | {"trials": [vars(trial) for trial in trials]})
        scores = members[0].scores if len(members) == 1 else np.tensordot(weights, [m.log_odds for m in members], 1)
        return choice, scores, np.concatenate([np.unique(test) for _, test in splits])

    def _chosen(self, memory: Memory) -> Choice:
        kept = memory.recall("best/blend")
        return Choice(**kept | {"trials": [Trial(**trial) for trial in kept["trials"]]})

    def _last_fit(
        self, chosen: Any, X: Any, y: Any, params: dict[str, Any], memory: Memory,
        stop: StopRequest | None,
    ) -> Any:  # fmt: skip
        """The members on all rows, as one."""
        for _, step in chosen.ready:
            X = step.transform(X)
        y, fitted = _for_all(y), []
        for k, (_, template) in enumerate(chosen.members):
            member = clone(template)
            if isinstance(member, MultilabelClassifier) and member.n_jobs is None:
                member.set_params(n_jobs=self.n_jobs)
            fitted.append(fit_clone(member, X, y, memory, f"fit/{k}", params=params, stop=stop))
            fitted[k].set_params(**template.get_params(deep=False))
        inside = fitted[0]
        if len(fitted) > 1:
            classes = np.unique(y) if y.ndim == 1 else np.arange(y.shape[1])
            inside = BlendedClassifier(chosen.members).made_of(fitted, chosen.weights, chosen.calibrators, classes)
        self.trials_, self.budget_ = chosen.trials, f"{chosen.n_fits} fits"
        return Pipeline([*chosen.ready, ("model", inside)]) if chosen.ready else inside

    def _seed(self) -> int:
        seed = self.random_state
        if isinstance(seed, int | np.integer):
            return int(seed)
        return int(check_random_state(0 if seed is None else seed).randint(2**31 - 1))

    def _check_estimator(self) -> None:
        parse_budget(self.budget)
        if not isinstance(self.tune, bool | np.bool_):
            raise ValueError(f"tune must be True or False; got {self.tune!r}.")
        if isinstance(self.cv, str):
            raise ValueError(f"cv must be an int, a float, a splitter or an iterable; got {self.cv!r}.")

    def _routed(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        return fit_params if sample_weight is None else {"sample_weight": sample_weight, **fit_params}

    def get_metadata_routing(self) -> MetadataRouter:
        """Where `fit` sends its metadata: it is used here, and handed on to the candidates.

        Returns
        -------
        MetadataRouter
            That of this classifier alone.
        """
        return MetadataRouter(owner=self).add_self_request(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True  # missing numbers become means
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = True
        return tags


def _for_all(y: Any) -> Any:
    """A sparse indicator that is not large as a dense one, which forests need."""
    return y.toarray() if sp.issparse(y) and y.shape[0] * y.shape[1] <= _DENSE_CELLS else y
