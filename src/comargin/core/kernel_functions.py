"""Kernel functions with the names and parameters of scikit-learn, and the kernel matrix of the training rows."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from .estimator import Interval, MultilabelClassifier, StrOptions
from .explanation import Explanation, linear_explanations
from .gram import Gram
from .row_blocks import row_blocks, squared_lengths
from .validation import Matrix, validate_features

# Asymmetry, and negative eigenvalues, allowed in a user's kernel matrix relative to its largest value: float32 passes.
_PRECISION = 1e-6
# Relative error of exp(-gamma |x - x'|^2) from which sparse rows count as far from zero.
_DISTANCE_ROUNDING = 1e-10
# Rows sampled for the check of the eigenvalues.
_ROWS_CHECKED = 1000
# Entries of a block of kernel values in prediction.
_BLOCK_SIZE = 2**23


class KernelMultilabelClassifier(MultilabelClassifier):
    r"""Base of learners with a kernel: its parameters, the support rows, and scores from them.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", :math:`\exp(-\gamma \|x - x'\|^2)`, and "poly". "scale" is 1 / (n_features * X.var()), "auto" is
        1 / n_features.
    degree : int, default=3
        Of "poly", :math:`(\gamma\, x^\top x' + c_0)^{degree}`.
    coef0 : float, default=1.0
        :math:`c_0` of "poly"; not negative, or it would not be a kernel.

    Attributes
    ----------
    support_ : int ndarray of shape (n_support,)
        Training rows that scores depend on.
    support_vectors_ : ndarray or csr_array of shape (n_support, n_features), or None
        These rows; None when the kernel is precomputed.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights (linear kernel only).
    """

    kernel: str | Callable[[Any, Any], Any] = "linear"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 1.0
    cache_size: float = 1000

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({"linear", "rbf", "poly", "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    def _kernel_attributes(
        self, function: "KernelFunction", X: Matrix, coef: np.ndarray, intercept: np.ndarray
    ) -> dict[str, Any]:
        """Fitted attributes from the coefficients of all training rows, ``coef`` of shape (n_labels, n_samples).

        These are ``support_``, ``support_vectors_``, ``dual_coef_``, ``intercept_`` and, with a linear kernel,
        ``coef_``.
        """
        support = np.flatnonzero(coef.any(axis=0))
        dual_coef = np.ascontiguousarray(coef[:, support])
        attributes = {
            "support_": support,
            "support_vectors_": None if function.kernel == "precomputed" else X[support],
            "dual_coef_": dual_coef,
            "intercept_": intercept,
            "_kernel_function": function,
        }
        if function.kernel == "linear":
            attributes["coef_"] = np.asarray((X[support].T @ dual_coef.T).T)
        return attributes

    def _scores(self, X: Any) -> np.ndarray:
        X = validate_features(self, X)
        if hasattr(self, "coef_"):
            return np.asarray(X @ self.coef_.T) + self.intercept_
        scores = self._kernel_function.scores(X, self.support_vectors_, self.support_, self.dual_coef_)
        return scores + self.intercept_

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        X = validate_features(self, X)
        if hasattr(self, "coef_"):
            return linear_explanations(X, *self._explained(self.coef_, self.intercept_), asked, top, names)
        coef, intercept = self._explained(self.dual_coef_, self.intercept_)
        found: list[list[Explanation]] = []
        for rows in row_blocks(X.shape[0], max(_BLOCK_SIZE // max(len(self.support_), 1), 1)):
            values = self._kernel_function.values(X[rows], self.support_vectors_, self.support_)
            found += linear_explanations(values, coef, intercept, asked[rows], top, self.support_, kind="training_row")
        return found

    def _explained(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of the scores, from those of the kernel expansion."""
        return coef, intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


@dataclass(frozen=True)
class KernelFunction:
    """k(x, x') with all its parameters known.

    ``kernel`` is "linear", "rbf", exp(-gamma |x - x'|^2), "poly", (gamma x.x' + coef0)^degree, "precomputed", or a
    function of two matrices of rows. ``center`` (n_features,) is subtracted from rows before rbf: it changes no
    distance, but |x|^2 + |x'|^2 - 2 x.x' of rows far from zero would lose all digits. It is None for other kernels, and
    for sparse rows that are near zero: others become dense.
    """

    kernel: str | Callable[[Any, Any], Any]
    gamma: float
    degree: int
    coef0: float
    center: np.ndarray | None = None

    def matrix(self, X: Matrix, Y: Matrix) -> np.ndarray:
        """Kernel values of the rows of X (n of them) with those of Y (m), shape (n, m)."""
        if self.kernel == "rbf":
            if self.center is not None:
                X, Y = (
                    rows - self.center if isinstance(rows, np.ndarray) else rows.toarray() - self.center
                    for rows in (X, Y)
                )
            return rbf_kernel(X, Y, gamma=self.gamma)
        if self.kernel == "poly":
            return polynomial_kernel(X, Y, degree=self.degree, gamma=self.gamma, coef0=self.coef0)
        if self.kernel == "linear":
            return linear_kernel(X, Y)
        assert callable(self.kernel)
        return _checked(self.kernel(X, Y), (X.shape[0], Y.shape[0]))

    def diagonal(self, X: Matrix) -> np.ndarray:
        """k(x, x) of every row."""
        if callable(self.kernel):
            return np.concatenate([np.diag(self.matrix(X[rows], X[rows])) for rows in row_blocks(X.shape[0], 256)])
        if self.kernel == "rbf":
            return np.ones(X.shape[0])
        squares = squared_lengths(X)
        return squares if self.kernel == "linear" else (self.gamma * squares + self.coef0) ** self.degree

    def gram(self, X: Matrix, *, constant: float) -> Gram:
        """Kernel matrix plus ``constant`` of the training rows X, which are the matrix itself if it is precomputed.

        Raises ValueError if the matrix, or a sample of its rows, is not symmetric positive semi-definite.
        """
        if self.kernel == "precomputed":
            if not isinstance(X, np.ndarray):
                raise ValueError('kernel="precomputed" takes a dense X, the kernel matrix; got a sparse one')
            K, name = X, 'kernel="precomputed": X'
            n_rows, n_columns = K.shape
            if n_rows != n_columns:
                what = f"must be the square kernel matrix of the training rows, got {n_rows} x {n_columns}"
                raise ValueError(f"{name} {what}")
            some = _some_rows(n_rows)
            _check_symmetric(K, np.arange(n_rows), name)
            _check_positive(K[np.ix_(some, some)], name)
            return Gram(lambda rows, columns: K[rows][:, columns], np.diag(K) + constant, constant)
        if callable(self.kernel):
            some = _some_rows(X.shape[0])
            K = self.matrix(X[some], X[some])
            _check_symmetric(K, some, "kernel")
            _check_positive(K, "kernel")
        diagonal = self.diagonal(X)

        def values(rows: np.ndarray | slice, columns: np.ndarray | slice) -> np.ndarray:
            block = self.matrix(X[rows], X[columns])
            # k(x, x) of a row with itself is exact; the block has rounding in the distance.
            i, j = np.arange(X.shape[0])[rows], np.arange(X.shape[0])[columns]
            _, here, there = np.intersect1d(i, j, assume_unique=True, return_indices=True)
            block[here, there] = diagonal[i[here]]
            return block

        return Gram(values, diagonal + constant, constant)

    def values(self, X: Matrix, support_vectors: Matrix | None, support: np.ndarray) -> np.ndarray:
        """Kernel values of the rows of X with the support vectors, as in `scores`."""
        if len(support) == 0:
            return np.zeros((X.shape[0], 0))
        return X[:, support] if support_vectors is None else self.matrix(X, support_vectors)

    def scores(self, X: Matrix, support_vectors: Matrix | None, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """k(X, support vectors) coef^T of shape (n_samples, n_labels), a block of rows at a time.

        ``support_vectors`` is None for a precomputed kernel: then X holds the kernel values with all training rows, of
        which the columns ``support`` are taken. ``coef`` has the shape (n_labels, n_support).
        """
        if len(support) == 0:
            return np.zeros((X.shape[0], coef.shape[0]))
        scores = np.empty((X.shape[0], coef.shape[0]))
        for rows in row_blocks(X.shape[0], max(_BLOCK_SIZE // len(support), 1)):
            scores[rows] = self.values(X[rows], support_vectors, support) @ coef.T
        return scores


def scale_gamma(X: Matrix) -> float:
    """The gamma "scale" of some rows, 1 / (n_features * variance)."""
    if isinstance(X, np.ndarray):
        variance = X.var()
    else:  # not the mean square less the squared mean, which cancel far from zero
        size, mean = X.shape[0] * X.shape[1], X.mean()
        variance = (np.sum((X.data - mean) ** 2) + (size - X.nnz) * mean**2) / size
    return 1.0 / (X.shape[1] * float(variance)) if variance > 0.0 else 1.0


def kernel_function(
    kernel: str | Callable[[Any, Any], Any], gamma: str | float, degree: int, coef0: float, X: Matrix
) -> KernelFunction:
    """The kernel for an estimator's parameters; gamma "scale" and "auto" become numbers by scikit-learn's rule."""
    if not isinstance(kernel, str) or kernel in ("linear", "precomputed"):
        return KernelFunction(kernel, np.nan, degree, coef0)
    if gamma == "scale":
        gamma = scale_gamma(X)
    elif gamma == "auto":
        gamma = 1.0 / X.shape[1]
    center = None
    if kernel == "rbf":
        rounding = np.finfo(np.float64).eps * float(gamma) * float(squared_lengths(X).max())
        if isinstance(X, np.ndarray) or rounding > _DISTANCE_ROUNDING:
            center = np.asarray(X.mean(axis=0)).ravel()
    return KernelFunction(kernel, float(gamma), degree, coef0, center)


def _checked(values: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return value of a user's kernel function as a finite float64 matrix of the given shape."""
    values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"kernel must return one value per pair of rows, shape {shape}; got {values.shape}")
    if not np.all(np.isfinite(values)):
        raise ValueError("kernel returned NaN or infinity")
    return values


def _check_symmetric(K: np.ndarray, of_rows: np.ndarray, name: str) -> None:
    """Check the kernel values of some training rows with each other; ``of_rows`` are their numbers."""
    largest = float(np.abs(np.diag(K)).max())
    for rows in row_blocks(len(K), 1024):
        difference = np.abs(K[rows] - K[:, rows].T)
        if difference.max() > _PRECISION * largest:
            i, j = np.unravel_index(int(np.argmax(difference)), difference.shape)
            i, j = of_rows[int(i) + rows.start], of_rows[j]
            raise ValueError(
                f"{name} must be symmetric; entries ({i}, {j}) and ({j}, {i}) differ by {difference.max():.3g}"
            )


def _some_rows(n_rows: int) -> np.ndarray:
    """Numbers of all rows, or of so few evenly spaced ones that their eigenvalues are cheap."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, _ROWS_CHECKED)).astype(np.intp))


def _check_positive(K: np.ndarray, name: str) -> None:
    """Check for negative eigenvalues. One of a principal submatrix proves that the whole matrix has one."""
    values = np.linalg.eigvalsh(K)
    if values[0] < -_PRECISION * max(values[-1], np.finfo(np.float64).tiny):
        raise ValueError(
            f"{name} must be positive semi-definite; {len(K)} of its rows have the eigenvalue {values[0]:.3g} "
            f"(the largest is {values[-1]:.3g})"
        )
