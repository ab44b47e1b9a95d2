"""Taggers of three texts and of eight rows, and the files they are tried on; nothing is compiled for them."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comargin.data import Dataset
from comargin.decisions import ThresholdClassifierCV
from comargin.training import Tagger

TAGS = ("food", "sport", "weather")
TEXTS = ["rain and wind", "the cup final", "rain stops the final", "warm bread", "bread at the cup", "wind", "red wine"]
TRUE = [["weather"], ["sport"], ["sport", "weather"], ["food"], ["food", "sport"], ["weather"], ["food"]]
FEATURES = ("width", "height", "depth")
LABELS = ("tall", "wide", "deep")


def indicator(tags, names):
    return np.array([[int(name in row) for name in names] for row in tags])


def text_tagger(**reading):
    """One that finds the labels of TEXTS again."""
    model = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=100.0)))
    model = ThresholdClassifierCV(model, cv="prefit") if reading.pop("cuts", False) else model
    Y = indicator(TRUE, TAGS)
    if isinstance(model, ThresholdClassifierCV):
        model.estimator = model.estimator.fit(TEXTS, Y)
    return Tagger(model.fit(TEXTS, Y), TAGS, None, (), reading)


def feature_rows(n_rows=12):
    """Rows whose labels are the features above zero."""
    X = np.random.default_rng(0).normal(size=(n_rows, 3)).round(3)
    return Dataset(X, (X > 0).astype(np.int32)[:, [1, 0, 2]], FEATURES, LABELS, "boxes")


def feature_tagger(scaled=False):
    """One that is right about `feature_rows`; a scaled one takes dense rows only."""
    X = np.random.default_rng(1).normal(size=(200, 3))
    model = OneVsRestClassifier(LogisticRegression(C=1000.0))
    model = make_pipeline(StandardScaler(), model) if scaled else model
    return Tagger(model.fit(X, (X > 0).astype(int)[:, [1, 0, 2]]), LABELS, 3, FEATURES)
