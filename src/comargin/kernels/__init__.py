"""Compiled loops: Numba and NumPy only. Arrays and NamedTuples of arrays in, results in place."""
