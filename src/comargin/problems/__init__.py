"""Problems: objective, dual, links and optimality of each system, in plain NumPy. The equations live here."""

from .label_prior import PriorPart, identity_prior, split_prior
from .m3l import M3LProblem

__all__ = ["M3LProblem", "PriorPart", "identity_prior", "split_prior"]
