"""Small fitted models of every kind, and model files with something changed."""

import dataclasses
import json
import zipfile

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import comargin
from comargin import decisions
from comargin.baselines import ChainEnsemble, KnownLabelsClassifier
from comargin.decisions import DecisionClassifierCV
from comargin.graphs import LabelGraph

rng = np.random.default_rng(7)
X = rng.normal(size=(40, 4))
Y = (X[:, :3] + 0.4 * rng.normal(size=(40, 3)) > 0).astype(int)
TEXTS = ["sea and sky", "the city at night", "sky over the city", "sea", "night sky and sea", "city sea"] * 5
TAGS = np.array([[1, 0], [0, 1], [1, 1], [1, 0], [1, 0], [0, 1]] * 5)

LEARNERS = {
    "m3l": comargin.M3LClassifier(random_state=0, label_correlation="train", warm_start=True),
    "m3l rbf": comargin.M3LClassifier(kernel="rbf", class_weight={0: 1.0, 1: 2.0}, warm_start=True),
    "m3l poly": comargin.M3LClassifier(kernel="poly", degree=2, label_correlation=np.eye(3) + 0.1),
    "m3l smo": comargin.M3LClassifier(solver="smo", label_correlation=LabelGraph(np.eye(3), ["a", "b", "c"])),
    "m3l cv": comargin.M3LClassifierCV(Cs=[0.1, 1.0], cv=2, random_state=0),
    "m3l cv, no model": comargin.M3LClassifierCV(
        Cs=[0.1, 1.0], cv=ShuffleSplit(2, test_size=0.5, random_state=0), refit=False
    ),
    "cgm": comargin.CGMClassifier(alpha=1e-2, random_state=0),
    "structured": comargin.StructuredSVMClassifier(alpha=1e-2, random_state=0, graph=[(0, 1), (1, 2)], groups=[0, 1]),
    "structured, a clique": comargin.StructuredSVMClassifier(alpha=1e-2, graph=[(0, 1, 2)], random_state=0),
    "structured rbf": comargin.StructuredSVMClassifier(
        alpha=1e-2, graph=[(0, 1), (1, 2)], kernel="rbf", random_state=0
    ),
    "cgm rbf": comargin.CGMClassifier(alpha=1e-2, max_cliques=2, kernel="rbf", random_state=0),
    "rank-cvm": comargin.RankCVMClassifier(random_state=0, warm_start=True),
    "rank-cvm linear": comargin.RankCVMClassifier(kernel="linear", random_state=np.random.RandomState(3)),
    "rank-svm": comargin.RankSVMClassifier(random_state=0, warm_start=True),
    "lsg21": comargin.LSG21Classifier(alpha=0.1, warm_start=True),
    "lsg21 cv": comargin.LSG21ClassifierCV(alphas=3, cv=comargin.model_selection.MultilabelStratifiedKFold(2)),
    "prbr": comargin.PrBRClassifier(C=0.1, random_state=0, warm_start=True),
    "prml": comargin.PrMLClassifier(C=0.1, rank=2, random_state=0),
    "zero-shot": comargin.ZeroShotClassifier(
        comargin.M3LClassifier(random_state=0), [[0, 1, 0], [1, 1, 0], [1, 0, 1]], class_names=["bee", "ant", "fly"]
    ),
    "ovr": OneVsRestClassifier(LogisticRegression(C=2.0)),
    "scaled": make_pipeline(
        SimpleImputer(),
        StandardScaler(),
        MinMaxScaler(),
        MaxAbsScaler(),
        Normalizer(),
        "passthrough",
        OneVsRestClassifier(LinearSVC()),
    ),
    "tfidf of counts": make_pipeline(
        MinMaxScaler(), TfidfTransformer(sublinear_tf=True), comargin.M3LClassifier(random_state=0)
    ),
    "tf of counts": make_pipeline(
        MinMaxScaler(), TfidfTransformer(use_idf=False, norm="l1"), comargin.M3LClassifier(random_state=0)
    ),
    **{
        f"threshold {rule if isinstance(rule, str) else 'top 2'}": decisions.ThresholdClassifierCV(
            comargin.M3LClassifier(random_state=0), rule=rule, cv=KFold(2, shuffle=True, random_state=0)
        )
        for rule in ("per-label", "global", "proportional", "rank-svm", decisions.TopK(k=2))
    },
    "stack": comargin.StackedStructureClassifier(
        [comargin.M3LClassifier(random_state=0)], graph="tree", alpha=0.1, cv=2, random_state=0
    ),
    "stack without correction": comargin.StackedStructureClassifier(
        [comargin.M3LClassifier(random_state=0), OneVsRestClassifier(LogisticRegression())], alpha=np.inf, cv=2
    ),
    "decisions": DecisionClassifierCV(comargin.M3LClassifier(random_state=0), cv=2, random_state=0),
    "decisions with a promise": DecisionClassifierCV(
        comargin.M3LClassifier(random_state=0),
        aim=[1.0, 2.0],
        guarantee="recall >= 0.2 and false tags per row of 1 <= 0.9",
        confidence=0.6,
        cv=2,
        random_state=0,
    ),
    "auto": comargin.AutoClassifier(["m3l"], budget="2 fits", cv=2, random_state=0),
    "blend": decisions.BlendedClassifier(
        [("linear", comargin.M3LClassifier(random_state=0)), ("trees", RandomForestClassifier(5, random_state=0))], cv=2
    ),
}
TREES = {
    "tree": DecisionTreeClassifier(ccp_alpha=0.01, random_state=0),
    "forest": RandomForestClassifier(20, random_state=0, min_samples_leaf=2, oob_score=True),
    "extra trees": ExtraTreesClassifier(4, random_state=0, max_leaf_nodes=6),
    "cuts of a forest": decisions.ThresholdClassifierCV(RandomForestClassifier(5, random_state=0), cv=2),
}
RIVALS = {
    **TREES,
    "knn": KNeighborsClassifier(3),
    "knn by hand": KNeighborsClassifier(2, algorithm="brute", metric="cosine", weights="distance"),
    "ovr-rbf": OneVsRestClassifier(SVC(gamma=0.3)),
    "ovr of svms": make_pipeline(StandardScaler(), OneVsRestClassifier(SVC(kernel="poly", C=3.0))),
    "ovr of trees": OneVsRestClassifier(DecisionTreeClassifier(max_depth=2, random_state=0)),
    "chain": ChainEnsemble(LogisticRegression(), n_chains=2, random_state=0),
    "known labels": KnownLabelsClassifier(LogisticRegression()),
    "known labels of trees": KnownLabelsClassifier(RandomForestClassifier(3, random_state=0)),
    "chain of svms": ClassifierChain(SVC(kernel="linear"), order=[2, 0, 1]),
    "multi-output": MultiOutputClassifier(LinearSVC(random_state=0)),
    "cuts of neighbours": decisions.ThresholdClassifierCV(make_pipeline(MaxAbsScaler(), KNeighborsClassifier()), cv=2),
    "cuts of chains": decisions.ThresholdClassifierCV(ChainEnsemble(LogisticRegression(), 2, random_state=0), cv=2),
}
LEARNERS |= RIVALS
VECTORIZERS = {
    "tfidf": TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
    "tfidf, a few words": TfidfVectorizer(stop_words=["the", "at"], max_features=5, dtype=np.float32),
    "tf": TfidfVectorizer(use_idf=False, norm="l1"),
    "tfidf, given": TfidfVectorizer(vocabulary=["sky", "sea", "city"], smooth_idf=False),
    "characters": CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)),
    "given": CountVectorizer(vocabulary={"sea": 1, "sky": 0}, stop_words="english", binary=True),
    "hashing": HashingVectorizer(n_features=2**10),
}


def tagger(vectorizer):
    """A pipeline from texts to tags."""
    learner = comargin.M3LClassifier(random_state=0)
    return decisions.ThresholdClassifierCV(make_pipeline(vectorizer, learner), cv=2)


def in_fortran_order(array):
    return array.flags.f_contiguous and not array.flags.c_contiguous


def same(a, b):
    """Whether two values are equal to the last bit, type by type; models are compared part by part."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and in_fortran_order(a) == in_fortran_order(b)  # another order rounds otherwise
            and (a.tolist() == b.tolist() if a.dtype.kind in "OV" else a.tobytes() == b.tobytes())
        )
    if sp.issparse(a):
        return a.shape == b.shape and all(same(getattr(a, n), getattr(b, n)) for n in ("data", "indices", "indptr"))
    if isinstance(a, np.random.RandomState):
        return same(list(a.get_state()), list(b.get_state()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a):  # what they have computed from their fields does not count
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    if type(a).__name__ == "Tree":
        return same(a.__reduce__()[1:], b.__reduce__()[1:])
    if type(a).__name__ == "KDTree":
        return same([np.asarray(part) for part in a.get_arrays()], [np.asarray(part) for part in b.get_arrays()])
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return same(vars(a), vars(b))
    return a == b or (a != a and b != b)


def read_members(path):
    """Contents of a model file: the JSON document, and the bytes of the arrays by name.

    Without the hashes, as in a file of an early version: changed contents meet the checks behind them.
    """
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members.pop("model.json"))
    for name in ("sha256", "arrays_sha256"):
        document.pop(name, None)
    return document, members


def write_members(path, document, members, compression=zipfile.ZIP_DEFLATED):
    """A zip file with right checksums, whatever is in it."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("model.json", document if isinstance(document, str | bytes) else json.dumps(document))
        for name, data in members.items():
            archive.writestr(name, data)
    return path
