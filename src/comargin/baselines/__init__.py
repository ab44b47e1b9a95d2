"""Rivals of the papers' learners that scikit-learn does not have as one estimator.

A new one is a file here and a `ModelRecipe` in `models.py`. Its ``saved=`` says what a fit sets, and that suffices for
model files where ``predict`` is safe with arrays of any shapes. A codec in `persistence/_learners.py` takes its place
where arrays must fit together before they are used, as the label numbers of `ChainEnsemble` with its chains.
"""

from .chains import ChainEnsemble

__all__ = ["ChainEnsemble"]
