"""Best labelings on a label graph: exact elimination, MPLP with its bound, branch and bound."""

from ._engine import Inference
from ._map import MapResult, solve_map, solve_map_factors

__all__ = ["Inference", "MapResult", "solve_map", "solve_map_factors"]
