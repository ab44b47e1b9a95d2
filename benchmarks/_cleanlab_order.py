"""Cells in the order of cleanlab's multi-label filter, for bench_audit; runs in an environment that has cleanlab 2.9.

Usage: python _cleanlab_order.py in.npz out.npz. The input holds P and Y; the output the cells (row * n_labels + label):
those that the filter flags by their self-confidence, then the others by theirs.
"""

from __future__ import annotations

import sys

import numpy as np
from cleanlab.internal.multilabel_utils import onehot2int
from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class


def main() -> None:
    given = np.load(sys.argv[1])
    P, Y = given["P"], given["Y"]
    flagged = find_multilabel_issues_per_class(onehot2int(Y), P, n_jobs=1)
    confidence = np.where(Y == 1, P, 1.0 - P)
    np.savez(sys.argv[2], order=np.lexsort((confidence.ravel(), ~flagged.ravel())), n_flagged=flagged.sum())


if __name__ == "__main__":
    main()
