"""Literal, slow, independent versions of our algorithms: plain Python loops straight from the equations."""

import numpy as np

_MASK = (1 << 64) - 1


class Xoshiro:
    """xoshiro256++ on Python integers."""

    def __init__(self, words):
        self.s = [int(w) for w in words]

    def next(self):
        s = self.s
        total = (s[0] + s[3]) & _MASK
        result = ((((total << 23) & _MASK) | (total >> 41)) + s[0]) & _MASK
        t = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = ((s[3] << 45) & _MASK) | (s[3] >> 19)
        return result

    def below(self, n):
        while True:
            product = (self.next() >> 32) * n
            if (product & 0xFFFFFFFF) >= (2**32 - n) % n:
                return product >> 32

    def shuffle(self, values):
        for i in range(len(values) - 1, 0, -1):
            j = self.below(i + 1)
            values[i], values[j] = values[j], values[i]


def m3l_epochs(X, S, U, R, T, n_epochs, words):
    """Dual coordinate descent on M3L, all variables, rows in the order the kernel would take them.

    Minimises over one A_il at a time, others fixed: no shrinking, no shared products.
    """
    n, d = X.shape
    n_labels = S.shape[1]
    A = np.zeros((n, n_labels))
    rng = Xoshiro(words)
    rows = list(range(n))
    for _ in range(n_epochs):
        rng.shuffle(rows)
        for i in rows:
            for label in range(n_labels):
                z = np.zeros(d)
                for j in range(n):
                    for m in range(n_labels):
                        z += 2.0 * R[m, label] * S[j, m] * A[j, m] * X[j]
                t = T[i, label] if T.size else 1.0
                gradient = S[i, label] * float(z @ X[i]) - t
                q = float(X[i] @ X[i]) * R[label, label]
                if q == 0.0:
                    A[i, label] = U[i, label]
                else:
                    A[i, label] = min(max(A[i, label] - gradient / (2.0 * q), 0.0), U[i, label])
    return A
