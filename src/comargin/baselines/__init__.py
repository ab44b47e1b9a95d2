"""Rivals of the papers' learners that scikit-learn does not have as one estimator.

`KnownLabelsClassifier` lets scikit-learn's classifiers learn from partly unknown labels.

A new one is a file here and a `ModelRecipe` in `models.py`. Its ``saved=`` says what a fit sets, and that suffices for
model files where ``predict`` is safe with arrays of any shapes. A codec in `persistence/_learners.py` takes its place
where arrays must fit together before they are used, as the label numbers of `ChainEnsemble` with its chains.
"""

from .chains import ChainEnsemble
from .known_labels import KnownLabelsClassifier

__all__ = ["ChainEnsemble", "KnownLabelsClassifier"]
