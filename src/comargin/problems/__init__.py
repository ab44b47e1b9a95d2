"""Problems: objective, dual, links and optimality of each system, in plain NumPy. The equations live here."""

from .m3l import M3LProblem

__all__ = ["M3LProblem"]
