"""Base of classifiers that fit another estimator."""

from dataclasses import field
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from .explanation import ExplanationMixin
from .parameters import DeclaredParameters
from .validation import is_estimator


class WrappingClassifier(DeclaredParameters, ExplanationMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base of classifiers with a parameter ``estimator``, which ``fit`` clones and keeps as ``estimator_``."""

    estimator: Any = field(kw_only=False)

    @property
    def n_features_in_(self) -> int:
        """Number of features the estimator was fitted with."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Feature names the estimator was fitted with."""
        return self.estimator_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Where `fit` sends its metadata.

        Returns
        -------
        MetadataRouter
            ``sample_weight`` is used here and routed to the estimator; other parameters of `fit` are routed only.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def _routed(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the estimator's ``fit``."""
        params = fit_params if sample_weight is None else {"sample_weight": sample_weight, **fit_params}
        if not get_config()["enable_metadata_routing"]:
            return dict(params)
        return dict(process_routing(self, "fit", **params).estimator.fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if is_estimator(self.estimator):  # `fit` raises otherwise
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags
