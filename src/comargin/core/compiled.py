# mypy: ignore-errors
"""The one way a loop is compiled here: cached on disk, without the GIL, never ``parallel`` or ``fastmath=True``."""

from numba import njit

compiled = njit(cache=True, nogil=True)
