"""scikit-learn's own suite over every public estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from comargin import M3LClassifier


@parametrize_with_checks([M3LClassifier(), M3LClassifier(tol=1e-10, max_iter=100_000)])
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_every_public_estimator_is_checked():
    import comargin

    public = {n for n in comargin.__all__ if n.endswith("Classifier")}
    checked = {"M3LClassifier"}
    assert public == checked
