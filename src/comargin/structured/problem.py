r"""Structured SVM with a squared l2,1 norm over groups of cliques, Tan et al. (2015), Eq. (10).

.. math:: F(w) = \frac\lambda2 \|u\|^2 + \frac\lambda2 \Big(\sum_k \|\omega_k\|\Big)^2
          + \sum_i m_i \max_y \big[\Delta(y, y_i) + w^\top (\Psi(y, x_i) - \Psi(y_i, x_i))\big]              (10)
.. math:: D(a) = \sum_{iy} \Delta(y, y_i)\, a_{iy} - \frac1{2\lambda} \Big(\|u(a)\|^2 + \max_k \|\omega_k(a)\|^2\Big),
          \qquad a \ge 0,\ \sum_y a_{iy} = m_i

with :math:`(u(a), \omega(a)) = \sum_{iy} a_{iy} (\Psi(y_i, x_i) - \Psi(y, x_i))` and :math:`m_i` = 1/n, or the weight
of the row over the sum of weights. The maximum runs over all labelings, y_i included, so a_{iy_i} is the slack of the
paper's inequality. Delta counts wrong labels, each at its cost.

The maximum over groups is the minimum over convex weights t of them,

.. math:: D(a) = \min_{t \ge 0,\ \sum t = 1} \sum \Delta a
          - \frac1{2\lambda} \Big(\|u(a)\|^2 + \sum_k t_k \|\omega_k(a)\|^2\Big),

a structured SVM with one ordinary quadratic norm for every t: at the optimum :math:`\omega_k = t_k \omega_k(a) /
\lambda` and :math:`t_k = \|\omega_k\| / \sum_j \|\omega_j\|`, zero for the groups that Algorithm 3 drops.

Notation: paper -> code: ``lambda -> alpha``, ``w -> weights W (d, n_columns)``, dual average ``v(a) -> V``, ``alpha ->
mass of a labeling``; columns as in :mod:`comargin.problems.cliques`. With the node columns g = u_on - u_off,
``W = V * scale`` where scale is 2/lambda for nodes and t_k/lambda for a clique of group k.

References
----------
Tan, Shi, van den Hengel, Shen, Gao, Hu, Zhang. Learning graph structure for multi-label image classification via clique
generation, CVPR 2015. doi:10.1109/CVPR.2015.7299034
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .cliques import CliqueSet


@dataclass(frozen=True)
class StructuredProblem:
    """One data set, one set of cliques.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Rows, a constant feature included where one is wanted.
    Y : uint8 ndarray of shape (n_samples, n_labels)
        In {0, 1}.
    mass : ndarray of shape (n_samples,)
        m_i, with sum 1.
    cost : ndarray of shape (2, n_labels)
        Cost of a wrong label when the true one is 0, and when it is 1.
    cliques : CliqueSet
        The graph.
    alpha : float
        lambda.
    """

    X: np.ndarray | sp.csr_array
    Y: np.ndarray
    mass: np.ndarray
    cost: np.ndarray
    cliques: CliqueSet
    alpha: float

    def scale(self, group_weights: np.ndarray) -> np.ndarray:
        """What turns the dual average of a column into its weights.

        Parameters
        ----------
        group_weights : ndarray of shape (n_groups,)
            t, not negative with sum 1.

        Returns
        -------
        ndarray of shape (n_columns,)
            W = V * scale.
        """
        return np.append(group_weights, 2.0)[self.cliques.group_of_column] / self.alpha  # nodes: group -1

    def regulariser(self, sqnorms: np.ndarray) -> float:
        """The first two terms of F.

        Parameters
        ----------
        sqnorms : ndarray of shape (n_columns,)
            Squared lengths of the columns of W.

        Returns
        -------
        float
            lambda/2 ||u||^2 + lambda/2 (sum_k ||omega_k||)^2.
        """
        nodes = 0.5 * float(np.sum(sqnorms[: self.cliques.n_labels]))
        return 0.5 * self.alpha * (nodes + float(np.sum(self.cliques.group_lengths(sqnorms))) ** 2)

    def dual(self, linear: float, sqnorms: np.ndarray) -> float:
        """D.

        Parameters
        ----------
        linear : float
            Sum of Delta times mass over all labelings.
        sqnorms : ndarray of shape (n_columns,)
            Squared lengths of the columns of V.

        Returns
        -------
        float
            Not above the optimum of F.
        """
        nodes = 2.0 * float(np.sum(sqnorms[: self.cliques.n_labels]))
        longest = float(np.max(self.cliques.group_lengths(sqnorms), initial=0.0))
        return linear - 0.5 * (nodes + longest**2) / self.alpha

    def costs(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Cost of every label being wrong.

        Parameters
        ----------
        rows : slice or ndarray
            Which rows.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            Not negative.
        """
        return np.where(self.Y[rows] > 0, self.cost[1], self.cost[0])

    def augment(self, potentials: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Add Delta to potentials, in place: the labeling that violates its margin most maximises the sum.

        Delta(y, y_i) = sum_k c_ik [y_k != y_ik] = sum_k c_ik y_ik + sum_k c_ik (1 - 2 y_ik) y_k.

        Parameters
        ----------
        potentials : ndarray of shape (n_rows, n_columns)
            X W of the rows; the columns of the nodes are changed.
        rows : slice or ndarray
            Which rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            The part of Delta that does not depend on y, sum_k c_ik y_ik.
        """
        costs, truth = self.costs(rows), self.Y[rows].astype(np.float64)
        potentials[:, : self.cliques.n_labels] += costs * (1.0 - 2.0 * truth)
        return np.vecdot(costs, truth)

    def true_scores(self, potentials: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """W . Psi(y_i, x_i), up to what is the same for all labelings.

        Parameters
        ----------
        potentials : ndarray of shape (n_rows, n_columns)
            X W of the rows.
        rows : slice or ndarray
            Which rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores.
        """
        return np.vecdot(self.cliques.features(self.Y[rows]), potentials)
