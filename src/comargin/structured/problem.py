r"""Structured SVM with a squared l2,1 norm over groups of cliques, Tan et al. (2015), Eq. (10).

.. math:: F(w) = \frac\lambda2 \|u\|^2 + \frac\lambda2 \Big(\sum_k \|\omega_k\|\Big)^2
          + \sum_i m_i \max_y \big[\Delta(y, y_i) + w^\top (\Psi(y, x_i) - \Psi(y_i, x_i))\big]              (10)
.. math:: D(a) = \sum_{iy} \Delta(y, y_i)\, a_{iy} - \frac1{2\lambda} \Big(\|u(a)\|^2 + \max_k \|\omega_k(a)\|^2\Big),
          \qquad a \ge 0,\ \sum_y a_{iy} = m_i

with :math:`(u(a), \omega(a)) = \sum_{iy} a_{iy} (\Psi(y_i, x_i) - \Psi(y, x_i))` and :math:`m_i` = 1/n, or the weight
of the row over the sum of weights. The maximum runs over all labelings, y_i included, so a_{iy_i} is the slack of the
paper's inequality. Delta counts wrong labels, each at its cost c_il.

Offsets o_il are a part sum_l o_il y_l of the score that no weights change. They are signed costs:

.. math:: \Delta(y, y_i) + \sum_l o_{il} (y_l - y_{il}) = \sum_l c'_{il} [y_l \ne y_{il}],
          \qquad c'_{il} = c_{il} + (1 - 2 y_{il})\, o_{il},

which may be negative: then the label is right by more than its cost without any weights. Here and in all loops, cost
means c'.

The maximum over groups is the minimum over convex weights t of them,

.. math:: D(a) = \min_{t \ge 0,\ \sum t = 1} \sum \Delta a
          - \frac1{2\lambda} \Big(\|u(a)\|^2 + \sum_k t_k \|\omega_k(a)\|^2\Big),

a structured SVM with one ordinary quadratic norm for every t: at the optimum :math:`\omega_k = t_k \omega_k(a) /
\lambda` and :math:`t_k = \|\omega_k\| / \sum_j \|\omega_j\|`, zero for the groups that Algorithm 3 drops.

Notation: paper -> code: ``lambda -> alpha``, ``w -> weights W (d, n_columns)``, dual average ``v(a) -> V``, ``alpha ->
mass of a labeling``; columns as in :mod:`comargin.structured.cliques`. With the node columns g = u_on - u_off,
``W = V * scale`` where scale is 2/lambda for nodes and t_k/lambda for a clique of group k.

References
----------
Tan, Shi, van den Hengel, Shen, Gao, Hu, Zhang. Learning graph structure for multi-label image classification via clique
generation, CVPR 2015. doi:10.1109/CVPR.2015.7299034
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .cliques import CliqueSet


@dataclass(frozen=True)
class StructuredProblem:
    """One data set, one set of cliques."""

    X: np.ndarray | sp.csr_array  # (n_samples, n_features), a constant feature included where one is wanted
    Y: np.ndarray  # uint8 (n_samples, n_labels) in {0, 1}
    mass: np.ndarray  # m_i (n_samples,), with sum 1
    cost: np.ndarray  # c' (n_samples, n_labels), of a wrong label; negative ones come from offsets
    cliques: CliqueSet
    alpha: float  # the paper's lambda, and that of the formulas here

    def scale(self, group_weights: np.ndarray) -> np.ndarray:
        """The scale with W = V * scale, Eq. (17) and (18), for weights t of the groups."""
        return np.append(group_weights, 2.0)[self.cliques.group_of_column] / self.alpha  # nodes are group -1

    def regulariser(self, sqnorms: np.ndarray) -> float:
        """lambda/2 ||u||^2 + lambda/2 (sum_k ||omega_k||)^2, from the squared lengths of the columns of W."""
        nodes = 0.5 * float(np.sum(sqnorms[: self.cliques.n_labels]))
        return 0.5 * self.alpha * (nodes + float(np.sum(self.cliques.group_lengths(sqnorms))) ** 2)  # Eq. (10)

    def dual(self, linear: float, sqnorms: np.ndarray) -> float:
        """D, from the sum of Delta times mass over all labelings and the squared lengths of the columns of V."""
        nodes = 2.0 * float(np.sum(sqnorms[: self.cliques.n_labels]))
        longest = float(np.max(self.cliques.group_lengths(sqnorms), initial=0.0))
        return linear - 0.5 * (nodes + longest**2) / self.alpha  # Eq. (8), theta

    def augment(self, potentials: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Add Delta to the potentials X W of some rows, in place: the worst labeling maximises the sum.

        Delta(y, y_i) = sum_k c_ik [y_k != y_ik] = sum_k c_ik y_ik + sum_k c_ik (1 - 2 y_ik) y_k. Returns its part that
        does not depend on y, sum_k c_ik y_ik, of shape (n_rows,).
        """
        potentials[:, : self.cliques.n_labels] += self._tilt[rows]
        return self._missed[rows]

    @cached_property
    def _tilt(self) -> np.ndarray:
        """c_ik (1 - 2 y_ik)."""
        return self.cost * (1.0 - 2.0 * self.Y)

    @cached_property
    def _missed(self) -> np.ndarray:
        """sum_k c_ik y_ik."""
        return np.vecdot(self.cost, self.Y.astype(np.float64))


def check_offsets(offsets: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Offsets as float64, one column for a 1-D y of two classes."""
    offsets = np.asarray(offsets, dtype=np.float64)
    if offsets.ndim == 1 and shape[1] == 1:
        offsets = offsets[:, None]
    if offsets.shape != shape:
        raise ValueError(f"offsets must have shape {shape}, one number for every row and label, got {offsets.shape}")
    if not np.isfinite(offsets).all():
        raise ValueError("offsets must be finite")
    return offsets
