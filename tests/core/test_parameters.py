"""The ``__init__`` that is made from declared parameters, and the one that a class writes itself."""

import inspect
import pickle
from dataclasses import field
from numbers import Real

import pytest
from sklearn.base import clone

from comargin import LSG21ClassifierCV, M3LClassifier, M3LClassifierCV
from comargin.core import Interval, LinearMultilabelClassifier, MultilabelClassifier

COMMON = ["tol", "max_iter", "n_jobs", "random_state", "verbose", "callback", "warm_start"]


class Declared(LinearMultilabelClassifier):
    alpha: float = field(default=1.0, kw_only=False)
    max_iter: int = 7
    shape: str = "round"
    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="neither")]}  # noqa: RUF012


class Written(LinearMultilabelClassifier):
    def __init__(self, alpha=1.0, *, tol=0.5):
        self.alpha = alpha
        self.tol = tol


class WrittenAbove(Written):
    coef_: object  # annotated, and no parameter


class Constrained(MultilabelClassifier):
    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="neither")]}  # noqa: RUF012


class WrittenBelow(Constrained):
    def __init__(self, alpha=1.0):
        self.alpha = alpha


def test_parameters_are_those_of_the_class_and_its_bases():
    parameters = inspect.signature(Declared).parameters
    assert sorted(parameters) == sorted([*COMMON, "fit_intercept", "alpha", "shape"])
    positional = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    assert positional == ["alpha"]
    assert (parameters["max_iter"].default, parameters["tol"].default) == (7, 1e-3)
    model = Declared(2.0, shape="flat")
    assert vars(model) == {**{name: p.default for name, p in parameters.items()}, "alpha": 2.0, "shape": "flat"}
    assert Declared(2.0) != Declared(2.0)  # compared and hashed by identity, as estimators are
    assert "Declared(alpha=2.0" in repr(model)
    for again in (clone(model), pickle.loads(pickle.dumps(model))):
        assert vars(again) == vars(model)
    assert set(Declared._parameter_constraints) == {*COMMON, "fit_intercept", "alpha"}


def test_a_searched_parameter_is_no_parameter():
    for search, dropped in ((M3LClassifierCV, "C"), (LSG21ClassifierCV, "alpha")):
        for name in (dropped, "warm_start"):
            assert name not in search().get_params()
            assert name not in vars(search())
            with pytest.raises(TypeError, match=name):
                search(**{name: 1.0})
    assert "C" in M3LClassifier().get_params()


def test_an_own_init_stays():
    for kind in (Written, WrittenAbove):
        assert kind(3.0).get_params() == {"alpha": 3.0, "tol": 0.5}
    assert WrittenAbove.__init__ is Written.__init__


def test_constraints_of_a_base_reach_the_parameters_of_its_subclasses():
    assert list(WrittenBelow._parameter_constraints) == ["alpha"]
