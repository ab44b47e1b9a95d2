# mypy: ignore-errors
"""The one way a loop is compiled here: cached on disk, without the GIL, never ``parallel`` or ``fastmath=True``.

``inlined`` is for a function with many arguments that inner loops call: a call costs as much as its few operations.
"""

from numba import njit

compiled = njit(cache=True, nogil=True)
inlined = njit(cache=True, nogil=True, forceinline=True)
