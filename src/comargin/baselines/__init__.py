"""Rivals of the papers' learners that scikit-learn does not have as one estimator."""

from .chains import ChainEnsemble

__all__ = ["ChainEnsemble"]
