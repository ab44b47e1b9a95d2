"""All labelings of a small label graph, scored by NumPy from the definition."""

import itertools

import numpy as np


def labelings(n_labels):
    return np.array(list(itertools.product([0, 1], repeat=n_labels)), dtype=np.int64)


def all_scores(n_labels, cliques, potentials):
    """(n, 2^K): label 0 is the most significant bit of the column."""
    Y = labelings(n_labels)
    scores = potentials[:, :n_labels] @ Y.T
    first = n_labels
    for clique in cliques:
        for states in itertools.product([0, 1], repeat=len(clique)):
            index = first + int("".join(map(str, states)), 2)
            scores[:, np.all(Y[:, clique] == states, axis=1)] += potentials[:, [index]]
        first += 2 ** len(clique)
    return scores


def scores_of(labels, scores):
    """The score of one labeling per row, out of all."""
    column = labels.astype(np.int64) @ (1 << np.arange(labels.shape[1])[::-1])
    return scores[np.arange(len(scores)), column]


def max_marginals(n_labels, scores):
    Y = labelings(n_labels)
    return np.stack([scores[:, y == 1].max(axis=1) - scores[:, y == 0].max(axis=1) for y in Y.T], axis=1)


def random_tree(rng, n_labels):
    """Edges in random order and direction, labels in random order."""
    names = rng.permutation(n_labels)
    pairs = [(names[rng.integers(k)], names[k]) for k in range(1, n_labels)]
    return [tuple(int(v) for v in rng.permutation(pairs[e])) for e in rng.permutation(len(pairs))]


def random_cliques(rng, n_labels, n_cliques, orders=(2,)):
    """Different label sets, each in random order; fewer than asked for when chance repeats one."""
    found = {}
    for _ in range(n_cliques):
        clique = tuple(int(k) for k in rng.permutation(n_labels)[: rng.choice(orders)])
        if len(clique) >= 2:
            found.setdefault(frozenset(clique), clique)
    return list(found.values())


def n_columns(n_labels, cliques):
    return n_labels + sum(2 ** len(clique) for clique in cliques)


def random_graph(rng, shape):
    """Number of labels and cliques of a random graph of some shape."""
    n_labels = int(rng.integers(2, 10))
    if shape == "tree":
        return n_labels, random_tree(rng, n_labels)
    if shape == "sparse":  # several components, labels without a clique
        return n_labels, random_cliques(rng, n_labels, n_labels // 2)
    if shape == "loopy":
        return n_labels, random_cliques(rng, n_labels, 2 * n_labels)
    if shape == "dense":
        return n_labels, list(itertools.combinations(range(n_labels), 2))
    return n_labels, random_cliques(rng, n_labels, n_labels, orders=(2, 3, 4))


def random_potentials(rng, n_rows, n_labels, cliques, kind):
    shape = (n_rows, n_columns(n_labels, cliques))
    if kind == "ties":
        return rng.integers(-2, 3, size=shape).astype(np.float64)
    if kind == "zeros":
        return rng.normal(size=shape) * (rng.random(shape) < 0.2)
    potentials = rng.normal(size=shape)
    potentials[:, n_labels:] *= {"weak": 0.1, "even": 1.0, "strong": 30.0}[kind]
    return potentials
