# mypy: ignore-errors
"""Cholesky factors and triangular solves that release the GIL, so that worker threads run in parallel.

SciPy's own wrappers hold the GIL. The LAPACK and BLAS that SciPy publishes for Cython are called through ctypes, which
releases it. A C-ordered array is its transpose to Fortran, so lower here is upper there.
"""

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.linalg import LinAlgError

from .compiled import get_cython_function_address

# Ridges relative to the diagonal, tried in turn: rounding may leave a singular matrix slightly indefinite.
_RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)


def _function(module: str, name: str, n_arguments: int) -> Callable[..., None]:
    """A function of SciPy's Cython interface; all of its arguments are pointers."""
    address = get_cython_function_address(f"scipy.linalg.{module}", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


_dpotrf = _function("cython_lapack", "dpotrf", 5)
_dtrsm = _function("cython_blas", "dtrsm", 11)


def cholesky(M: np.ndarray) -> np.ndarray:
    """Return L with M = L L^T in its lower triangle, with the smallest ridge for which it exists.

    Only the lower triangle of M is read. The entries above the diagonal of L are undefined.
    """
    diagonal = M.diagonal().copy()
    size, info = ctypes.c_int(len(M)), ctypes.c_int()
    for ridge in _RIDGES:
        L = np.array(M, dtype=np.float64, order="C")
        if not L.size:
            return L
        if ridge > 0.0:
            L.flat[:: len(L) + 1] = diagonal * (1.0 + ridge)
        _dpotrf(b"U", ctypes.byref(size), L.ctypes.data, ctypes.byref(size), ctypes.byref(info))
        if info.value == 0:
            return L
    raise LinAlgError("a Newton system is not positive definite: scale the features")


def solve_lower(L: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L^-1 ``right`` of a vector or a matrix."""
    return _solve(L, right, b"N")


def solve_upper(L: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L^-T ``right`` of a vector or a matrix."""
    return _solve(L, right, b"T")


def solve_factored(L: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(L L^T)^-1 ``right`` of a vector or a matrix."""
    return solve_upper(L, solve_lower(L, right))


def _solve(L: np.ndarray, right: np.ndarray, transposed: bytes) -> np.ndarray:
    out = np.array(right, dtype=np.float64, order="C")
    if out.size:
        size, count = ctypes.byref(ctypes.c_int(len(L))), ctypes.byref(ctypes.c_int(out.size // len(L)))
        one, factor = ctypes.byref(ctypes.c_double(1.0)), L.ctypes.data
        _dtrsm(b"R", b"U", transposed, b"N", count, size, one, factor, size, out.ctypes.data, count)
    return out
