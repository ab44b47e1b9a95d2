"""Solvers: from a problem to a certified ``Result``; readable loops around compiled epochs."""

from ._loop import Control, run_loop
from ._result import Checkpoint, Result, Status

__all__ = ["Checkpoint", "Control", "Result", "Status", "run_loop"]
