"""Passes of structured SVMs until a gap, against plain block-coordinate Frank-Wolfe.

The plain method (Lacoste-Julien et al., 2013) meets one labeling per row and visit, steps towards it by exact line
search, and keeps none. It is counted in passes and not timed: it is a Python loop here. Our passes count Newton steps
on the labelings met as one, so our seconds stand beside them.
Run: python benchmarks/bench_cgm_passes.py
"""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import StandardScaler

from _common import Row, best_of, show, structured_problem
from comargin import StructuredSVMClassifier
from comargin.data import load, make_cgm_toy
from comargin.graphs import chow_liu_tree
from comargin.inference import Inference
from comargin.structured.cliques import CliqueSet
from comargin.structured.problem import StructuredProblem

TITLE = "Structured SVMs, passes until a gap"


def features(cliques: CliqueSet, labelings: np.ndarray) -> np.ndarray:
    """psi(y): which columns each of some labelings adds up."""
    parts = [labelings.astype(np.float64)]
    for clique in cliques.cliques:
        states = labelings[:, clique].astype(int) @ (1 << np.arange(len(clique))[::-1])
        parts.append(np.eye(1 << len(clique))[states])
    return np.hstack(parts)


def plain_bcfw(problem: StructuredProblem, gaps: list[float], most: int) -> list[int | None]:
    """Passes until each relative gap, None where ``most`` were too few."""
    X, Y, mass, cliques = problem.X, problem.Y, problem.mass, problem.cliques
    engine, scale, rng = (
        Inference(cliques.n_labels, cliques.cliques),
        problem.scale(np.ones(1)),
        np.random.default_rng(0),
    )
    psi = features(cliques, Y)
    q, loss = np.zeros_like(psi), np.zeros(len(Y))  # of every row: its share of the dual average, and of the loss
    V = np.zeros((X.shape[1], cliques.n_columns))
    reached: dict[float, int] = {}
    for n_passes in range(1, most + 1):
        for i in rng.permutation(len(Y)):
            rows = slice(i, i + 1)
            theta = X[rows] @ V * scale
            augmented = theta.copy()
            constant = problem.augment(augmented, rows)[0]
            labels, score, _ = engine.map(augmented)
            towards = mass[i] * (psi[i] - features(cliques, labels)[0])
            new_loss = mass[i] * (score[0] + constant - engine.score(theta, labels)[0])
            step, raised = towards - q[i], new_loss - loss[i] - float(theta[0] @ (towards - q[i]))
            curvature = float(X[i] @ X[i]) * float(scale @ step**2)
            length = 1.0 if curvature <= 0.0 else min(max(raised / curvature, 0.0), 1.0)
            q[i] += length * step
            loss[i] += length * (new_loss - loss[i])
            V += np.outer(X[i], length * step)
        if n_passes % 5 == 0:
            theta = np.ascontiguousarray(X @ V * scale)
            true = engine.score(theta, Y)
            constants = problem.augment(theta)
            primal = problem.regulariser(np.sum((V * scale) ** 2, axis=0)) + float(
                mass @ (engine.map(theta)[2] + constants - true)
            )
            gap = (primal - problem.dual(float(loss.sum()), np.sum(V**2, axis=0))) / primal
            for wanted in gaps:
                if gap <= wanted:
                    reached.setdefault(wanted, n_passes)
    return [reached.get(wanted) for wanted in gaps]


def main() -> list[Row]:
    toy = make_cgm_toy(2000, seed=0)
    scene = load("scene", split="train")
    settings = [
        ("toy 2000 x 10, true edges, alpha 1e-4", toy.X, toy.Y, [(0, 1), (0, 2), (0, 3), (0, 4)], 1e-4),
        (
            "scene 1211 x 294, Chow-Liu tree, alpha 0.5",
            StandardScaler().fit_transform(scene.X),
            scene.Y,
            [tuple(edge) for edge in chow_liu_tree(scene.Y).edges.tolist()],
            0.5,
        ),
    ]
    gaps, most, rows = [0.3, 0.1, 0.01, 1e-3], 100, []
    for name, X, Y, edges, alpha in settings:
        plain = plain_bcfw(structured_problem(X, Y, edges, alpha), gaps, most)
        for gap, theirs in zip(gaps, plain, strict=True):
            model = StructuredSVMClassifier(alpha=alpha, graph=edges, tol=gap, random_state=0)
            seconds = best_of(2, lambda model=model, X=X, Y=Y: model.fit(X, Y))
            rows.append(
                {
                    "problem": name,
                    "gap": f"{gap:g}",
                    "our passes": str(model.n_iter_),
                    "our seconds": f"{seconds:.2g}",
                    "passes of plain Frank-Wolfe": str(theirs or f"more than {most}"),
                }
            )
    return rows


if __name__ == "__main__":
    show(TITLE, main())
