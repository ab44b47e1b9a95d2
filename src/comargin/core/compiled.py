"""The one way a loop is compiled here: cached on disk, without the GIL, never ``parallel`` or ``fastmath=True``."""

from numba import njit

kernel = njit(cache=True, nogil=True)
