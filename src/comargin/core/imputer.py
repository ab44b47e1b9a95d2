"""Features that are missing."""

from typing import Any

import scipy.sparse as sp
from sklearn.impute import SimpleImputer


class MeanImputer(SimpleImputer):
    """scikit-learn's imputer, by the mean of a column; sparse rows stay CSR, without the zeros that it stores."""

    def transform(self, X: Any) -> Any:
        """Rows with a number in every place."""
        filled = super().transform(X)
        if sp.issparse(filled):
            filled = filled.tocsr()
            filled.eliminate_zeros()  # their logarithm, in TF-IDF, is infinite
        return filled
