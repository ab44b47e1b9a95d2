r"""Learning to rank labels: Rank-SVM and Rank-CVM.

A pair (i, m, n) asks that label m, relevant for row i, scores higher there than label n, which is irrelevant. With
:math:`f_k(x) = w_k^\top x + b_k`, L_i and N_i the relevant and irrelevant labels of row i, and
:math:`C_i = C v_i / (|L_i| |N_i|)` (v_i the weight of the row):

**Rank-SVM**, Eq. (18) and its dual (19), with free biases:

.. math:: P(w, b) = \tfrac12 \sum_k \|w_k\|^2 + \sum_i C_i \sum_{m \in L_i, n \in N_i}
          \max(0, 1 - f_m(x_i) + f_n(x_i))
.. math:: D(\alpha) = \sum \alpha_{imn} - \tfrac12 \sum_k \beta_k^\top K \beta_k, \qquad
          0 \le \alpha_{imn} \le C_i, \quad \sum_i \beta_{ki} = 0 \text{ for every } k

where :math:`\beta_{ki} = \sum_n \alpha_{ikn} - \sum_m \alpha_{imk}`, Eq. (21), and :math:`w_k = \sum_i \beta_{ki} x_i`.
Each pair adds to one relevant label and takes from one irrelevant label of its row, so that
:math:`\sum_k \beta_{ki} = 0` and :math:`\sum \alpha = \sum_i \sum_{k \in L_i} \beta_{ki}`.

**Rank-CVM**, Eq. (37). The biases are penalised like weights, that is K stands for the kernel plus 1, Eq. (38), and

.. math:: W(a) = \tfrac12 a^\top \Theta a, \qquad \sum a = 1,\ a \ge 0, \qquad
          (\Theta a)_{imn} = f_m(x_i) - f_n(x_i) + a_{imn} / C_i .

The gradient is Eq. (59). Without its simplex the problem is :math:`\max_{x \ge 0} 1^\top x - \frac12 x^\top \Theta x`
with a = x / sum(x), the dual of the squared hinge of Eq. (30),

.. math:: \tfrac12 \sum_k (\|w_k\|^2 + b_k^2) + \tfrac12 \sum_i C_i \sum_{mn} \max(0, 1 - f_m(x_i) + f_n(x_i))^2 .

Given the scores u_i of a row, :math:`x_{imn} = C_i \max(0, 1 - u_{im} + u_{in})`, Eq. (35); at the optimum u = f.
Pairs therefore need no memory: n x L numbers U stand for all of them, and any U gives a feasible x. The optimum of W
lies within the Frank-Wolfe gap :math:`2 W(a) - \min_{imn} (\Theta a)_{imn}` below W(a), Eq. (62).

Where a label is unknown in row i it is in neither L_i nor N_i: it has no pairs there.

Notation: paper -> code: ``l -> n_samples``, ``q -> n_labels``, ``alpha of Rank-CVM -> a = x / sum(x)``,
``C_i -> cost``, ``beta_ki -> beta[i, k]``. Rows without a pair (of known labels none is on, or all are) do not occur
here.

References
----------
Elisseeff, Weston. A kernel method for multi-labelled classification. NIPS 2001.

Xu. Fast multi-label core vector machine. Pattern Recognition 46(3), 2013. doi:10.1016/j.patcog.2012.09.003
"""

from dataclasses import dataclass

import numpy as np

from ..core.loop import column_rounding


def rows_with_pairs(Y: np.ndarray, weight: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """Rows of positive weight with at least one label known to be on and one known to be off, increasing."""
    on, off = _sides(Y, known)
    return np.flatnonzero((on > 0) & (off > 0) & (weight > 0.0))


def _sides(Y: np.ndarray, known: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels on and of labels off in every row."""
    on = np.count_nonzero(Y, axis=1)
    return on, (Y.shape[1] if known is None else np.count_nonzero(known, axis=1)) - on


@dataclass(frozen=True)
class RankProblem:
    """Rows with pairs.

    Y : uint8 (n_samples, n_labels), 0 where unknown, a label on and one off in every row.
    cost : (n_samples,), C_i > 0.  known : bool (n_samples, n_labels); None if all are.
    """

    Y: np.ndarray
    cost: np.ndarray
    known: np.ndarray | None = None

    @classmethod
    def of(cls, Y: np.ndarray, weight: np.ndarray, C: float, known: np.ndarray | None = None) -> "RankProblem":
        """The problem of rows with pairs and positive weights, C_i = C weight_i / (|L_i| |N_i|)."""
        on, off = _sides(Y, known)
        return cls(np.ascontiguousarray(Y, dtype=np.uint8), C * weight / (on * off), known)  # C_i of Eqs. (18), (30)

    @property
    def off(self) -> np.ndarray:
        """Which labels are known to be off."""
        off = self.Y == 0
        return off if self.known is None else off & self.known

    @property
    def n_pairs(self) -> int:
        """Pairs of all rows."""
        on, off = _sides(self.Y, self.known)
        return int(np.sum(on * off))

    def at(self, labels: np.ndarray) -> "RankProblem":
        """The pairs among some of the labels, at the costs they have."""
        return RankProblem(self.Y[:, labels], self.cost, None if self.known is None else self.known[:, labels])

    def labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels of each row, first the relevant, then the irrelevant, then the unknown ones; all int32.

        Also the number of relevant labels, and the number of known ones.
        """
        order = np.argsort(2 * (self.Y == 0).astype(np.int8) - self.off, axis=1, kind="stable").astype(np.int32)
        on, off = _sides(self.Y, self.known)
        return order, on.astype(np.int32), (on + off).astype(np.int32)


def pair_rounding(diagonal: np.ndarray, beta: np.ndarray) -> float:
    """Bound of the rounding in the difference of two scores of K beta; ``diagonal`` is that of K."""
    lengths = np.sqrt(diagonal)
    return 2.0 * float(lengths.max() * column_rounding(lengths, np.abs(beta)).max())


def core_vector_certificate(total: float, quadratic: float, lowest: float) -> tuple[float, float]:
    """W(a) of Rank-CVM at a = x / sum(x), and the lower bound W(a) - (Frank-Wolfe gap) of its minimum, Eq. (62).

    ``total`` is sum(x) > 0, ``quadratic`` x^T Theta x, ``lowest`` the smallest entry of Theta x over all pairs, less
    its `pair_rounding`.
    """
    objective = 0.5 * (quadratic / total) / total  # Eq. (37); the square of a tiny or huge total overflows
    return objective, lowest / total - objective  # Eq. (62)
