"""Sparse data with the statistics of news texts: Zipf words, topics, related and skewed labels."""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from ..core.checks import number, whole_number
from ._dataset import LABEL_DTYPE, Dataset

_BLOCK_ROWS = 2048  # rows drawn from one random stream; a constant of the model, not a tuning knob
_BACKGROUND_SHARE = 0.4  # of the tokens of a row; the rest comes from the topics of its labels
_MISSED = 0.05  # share of a row's topics that its labels do not name (and as many are named wrongly)
_IN_THEME = 0.85  # share of a label's rows that lie in its own theme: related labels occur together
_LENGTH_SIGMA = 0.5  # of the log-normal length of a row
_BACKGROUND_SHIFT, _TOPIC_SHIFT = 10.0, 3.0  # Zipf-Mandelbrot: p(rank) ~ 1 / (rank + shift)
_FEW_POSITIVES = 10.0
_MOST_FREQUENT = 0.9  # highest expected share of rows with one label


@dataclass(frozen=True)
class _Corpus:
    """The model of ``make_text_like``. Component 0 is the background, l + 1 the topic of label l."""

    frequencies: np.ndarray  # (L,) expected share of rows with the label
    themes: np.ndarray  # (L,) theme of each label
    theme_ends: np.ndarray  # (G,) cumulative probability of the themes
    theme_heads: np.ndarray  # (G,) most frequent label of each theme
    inside: np.ndarray  # (L,) probability of the label in a row of its theme
    outside: np.ndarray  # (L,) and in a row of another theme
    words: np.ndarray  # words of all components one after the other, by rank
    offsets: np.ndarray  # (L + 1,) where a component starts in ``words``
    sizes: np.ndarray  # (L + 1,) number of words of a component
    shifts: np.ndarray  # (L + 1,) Zipf shift of a component
    idf: np.ndarray  # (d,) inverse document frequency of each word under the model
    mean_tokens: float  # mean length of a row


def make_text_like(
    n: int = 1000, d: int = 2000, L: int = 20, nnz: int = 40, seed: int = 0, *, labels_per_row: float | None = None
) -> Dataset:
    """Sparse data that looks like tf-idf of news texts with topics as labels (RCV1 by shape and statistics).

    A row has a theme, the theme makes related labels likely, and the words of a row come from a Zipf
    background and from the topics of its labels, each topic a Zipf distribution over its own ordering of a
    part of the vocabulary. Topics share words, some topics of a row get few words, and 5 % of the labels
    are wrong: a linear classifier does well and cannot be perfect.

    Parameters
    ----------
    n : int, default=1000
        Number of rows.
    d : int, default=2000
        Number of words (features).
    L : int, default=20
        Number of labels.
    nnz : int, default=40
        Mean number of non-zeros a row; at most d / 2.
    seed : int, default=0
        Determines everything.
    labels_per_row : float or None, default=None
        Mean number of labels of a row, at most L / 5; None means 3.2 (as RCV1 has) or L / 5 if that is less.

    Returns
    -------
    dataset : Dataset
        ``X`` is a ``csr_array`` of float64 with int32 indices, non-negative, rows of length 1; ``Y`` a ``csr_array``
        of int32; ``extra`` has ``label_frequencies`` (expected) and ``themes`` (group of each label).

    Notes
    -----
    Rows are drawn in blocks, each from its own stream of the seed, into arrays allocated once: the memory
    needed beyond the result is that of one block. RCV1 itself is ``make_text_like(781265, 47236, 103, 76)``.

    A label that would have fewer than about 10 positives among n rows is made more frequent (as far as n
    allows), and with it the topics of the rows change. Where that touches no label, more rows keep the first
    ones: ``X[:m]`` and ``Y[:m]`` are the same for every such n.

    Examples
    --------
    >>> data = make_text_like(n=500, d=1000, L=20, nnz=30)
    >>> data.X.shape, data.Y.shape, data.X.indices.dtype.name
    ((500, 1000), (500, 20), 'int32')
    """
    n, d, L = whole_number("n", n, 1), whole_number("d", d, 2), whole_number("L", L, 1)
    nnz, most_labels = whole_number("nnz", nnz, 1), L / 5.0
    if nnz > d // 2:
        raise ValueError(
            f"nnz must be an int from 1 to {d // 2}, half of d={d}, got {nnz!r}: words are drawn with repetition, "
            "so rows with most of the vocabulary would need texts without end"
        )
    if labels_per_row is None:
        labels_per_row = min(3.2, most_labels)
    elif number("labels_per_row", labels_per_row, 0.0) == 0.0:
        raise ValueError(f"labels_per_row must be positive, got {labels_per_row!r}")
    elif labels_per_row > most_labels:
        raise ValueError(
            f"labels_per_row must be a number in [0, {most_labels:g}], a fifth of L={L}, got {labels_per_row!r}: the "
            "label frequencies are skewed, and with more labels a row the frequent ones would be on everywhere"
        )
    corpus = _draw_corpus(n, d, L, nnz, seed, labels_per_row)

    capacity = int(n * nnz * 1.03) + 100 * nnz
    data, indices = np.empty(capacity), np.empty(capacity, dtype=np.int32)
    row_sizes, labels = np.empty(n, dtype=np.int64), []
    filled = 0
    for block, start in enumerate(range(0, n, _BLOCK_ROWS)):
        n_rows = min(_BLOCK_ROWS, n - start)
        observed, sizes, words, values = _draw_block(corpus, np.random.default_rng([seed, 1, block]))
        row_sizes[start : start + n_rows] = sizes[:n_rows]
        end = filled + int(sizes[:n_rows].sum())
        if end > len(data):
            data.resize(end + capacity // 8, refcheck=False)
            indices.resize(end + capacity // 8, refcheck=False)
        data[filled:end], indices[filled:end] = values[: end - filled], words[: end - filled]
        filled = end
        labels.append(sp.csr_array(observed[:n_rows].astype(LABEL_DTYPE)))
    data.resize(filled, refcheck=False)
    indices.resize(filled, refcheck=False)
    index_dtype = np.int32 if filled <= np.iinfo(np.int32).max else np.int64
    indptr = np.concatenate([[0], np.cumsum(row_sizes)]).astype(index_dtype)
    return Dataset(
        sp.csr_array((data, indices, indptr), shape=(n, d)),
        sp.csr_array(sp.vstack(labels, format="csr")),
        _names("word", d),
        _names("topic", L),
        "text_like",
        {"label_frequencies": corpus.frequencies, "themes": corpus.themes},
    )


def _draw_corpus(n: int, d: int, L: int, nnz: int, seed: int, labels_per_row: float) -> _Corpus:
    (rng,) = _streams(seed, 1)
    frequencies = _label_frequencies(n, L, labels_per_row)
    n_themes = max(1, round(math.sqrt(L)))
    themes = np.arange(L) % n_themes  # by falling frequency: every theme gets frequent and rare labels
    theme_mass = np.bincount(themes, weights=frequencies, minlength=n_themes)
    theme_probability = theme_mass / theme_mass.sum()
    theme_ends = np.cumsum(theme_probability)
    theme_ends[-1] = 1.0
    own = theme_probability[themes]
    inside = np.minimum(0.95, _IN_THEME * frequencies / own) if n_themes > 1 else frequencies
    # own * inside + (1 - own) * outside = frequency
    outside = (frequencies - own * inside) / np.maximum(1.0 - own, 1e-12) if n_themes > 1 else frequencies

    order = rng.permutation(L)  # label index of each frequency rank: the labels are not sorted by frequency
    rank = np.argsort(order)
    topic_size = min(d, max(d // 100, 20))
    background = rng.permutation(d)
    topics = [rng.permutation(d)[:topic_size] for _ in range(L)]
    corpus = _Corpus(
        frequencies=frequencies[rank],
        themes=themes[rank],
        theme_ends=theme_ends,
        theme_heads=order[:n_themes],
        inside=inside[rank],
        outside=outside[rank],
        words=np.concatenate([background, *topics]).astype(np.int32),
        offsets=np.concatenate([[0], d + topic_size * np.arange(L)]).astype(np.int64),
        sizes=np.array([d] + [topic_size] * L),
        shifts=np.array([_BACKGROUND_SHIFT] + [_TOPIC_SHIFT] * L),
        idf=np.ones(d),
        mean_tokens=float(nnz),
    )
    corpus = replace(corpus, mean_tokens=_tokens_for(corpus, nnz, seed))
    return replace(corpus, idf=_inverse_document_frequency(corpus))


def _label_frequencies(n: int, L: int, labels_per_row: float) -> np.ndarray:
    """Falling label frequencies f_r ~ r^-a ((L + 1 - r) / L)^b; the bend at the end is that of RCV1."""
    rank = np.arange(1, L + 1)
    shape = rank**-0.75 * ((L + 1 - rank) / L) ** 0.9
    frequencies = labels_per_row * shape / shape.sum()
    while frequencies.max() > _MOST_FREQUENT:  # the rarer labels take the excess of the frequent ones
        full = frequencies >= _MOST_FREQUENT
        frequencies[full] = _MOST_FREQUENT
        frequencies[~full] *= (labels_per_row - _MOST_FREQUENT * full.sum()) / frequencies[~full].sum()
    return np.maximum(frequencies, min(_FEW_POSITIVES / n, 0.5 * labels_per_row / L))


def _tokens_for(corpus: _Corpus, nnz: int, seed: int) -> float:
    """Mean length of a row that gives ``nnz`` different words on average, from a pilot block."""
    tokens = float(nnz)
    for _ in range(20):
        _, sizes, _, _ = _draw_block(replace(corpus, mean_tokens=tokens), np.random.default_rng([seed, 2]))
        ratio = nnz / sizes.mean()
        if abs(ratio - 1.0) < 0.002:
            break
        tokens *= ratio**1.2  # different words grow slower than the length
    return tokens


def _inverse_document_frequency(corpus: _Corpus) -> np.ndarray:
    """Log of 1 / P(a row of mean length has the word), from the mixture of all components."""
    shares = np.concatenate(
        [[_BACKGROUND_SHARE], (1 - _BACKGROUND_SHARE) * corpus.frequencies / corpus.frequencies.sum()]
    )
    probability = np.zeros(len(corpus.idf))
    for share, offset, size, shift in zip(shares, corpus.offsets, corpus.sizes, corpus.shifts, strict=True):
        rank_ends = np.log1p(np.arange(size + 1) / shift)  # cumulative p(rank), up to its scale
        words = corpus.words[offset : offset + size]
        probability[words] += share * np.diff(rank_ends) / rank_ends[-1]
    return np.asarray(1.0 - np.log(-np.expm1(-corpus.mean_tokens * probability)))


def _draw_block(corpus: _Corpus, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One block of rows: labels (rows, L) bool, non-zeros per row, their words (sorted in a row), values."""
    n_rows, d = _BLOCK_ROWS, len(corpus.idf)
    theme = np.searchsorted(corpus.theme_ends, rng.random(n_rows), side="right")
    probability = np.where(corpus.themes == theme[:, None], corpus.inside, corpus.outside)
    topics = rng.random(probability.shape) < probability
    without = np.flatnonzero(~topics.any(axis=1))
    topics[without, corpus.theme_heads[theme[without]]] = True
    # Labels miss some topics and name wrong ones at the rate that keeps their frequency.
    wrong = _MISSED * corpus.frequencies / (1.0 - corpus.frequencies)
    luck = rng.random(topics.shape)
    observed = np.where(topics, luck >= _MISSED, luck < wrong)

    # Mixture of every row: the background and its topics, row after row; row r owns the interval [r, r + 1].
    part_row, component = np.nonzero(np.hstack([np.ones((n_rows, 1), dtype=bool), topics]))
    share = rng.standard_exponential(len(component))
    share[component == 0] = 0.0
    share *= ((1.0 - _BACKGROUND_SHARE) / np.bincount(part_row, weights=share))[part_row]
    share[component == 0] = _BACKGROUND_SHARE
    part_ends = np.cumsum(share)
    row_ends = np.cumsum(np.bincount(part_row))

    length = rng.lognormal(-0.5 * _LENGTH_SIGMA**2, _LENGTH_SIGMA, n_rows) * corpus.mean_tokens
    row = np.repeat(np.arange(n_rows), np.maximum(1, np.rint(length)).astype(np.int64))
    part = np.searchsorted(part_ends, row + rng.random(len(row)), side="right")
    part = np.clip(part, row_ends[row - 1] * (row > 0), row_ends[row] - 1)  # against rounding at the ends
    source = component[part]
    # Inverse of the cumulative log(1 + rank / shift) / log(1 + size / shift).
    scale = np.log1p(corpus.sizes / corpus.shifts)[source]
    rank = (corpus.shifts[source] * np.expm1(rng.random(len(row)) * scale)).astype(np.int64)
    word = corpus.words[corpus.offsets[source] + np.minimum(rank, corpus.sizes[source] - 1)]

    # 32-bit keys sort faster, where they suffice.
    key = np.sort((row * d + word).astype(np.int32 if n_rows * d <= np.iinfo(np.int32).max else np.int64))
    first = np.flatnonzero(np.diff(key, prepend=-1))
    times = np.diff(first, append=len(key))
    row, word = np.divmod(key[first], d)
    value = (1.0 + np.log(times)) * corpus.idf[word]
    value /= np.sqrt(np.bincount(row, weights=value * value))[row]
    return observed, np.bincount(row), word.astype(np.int32), value


def _streams(seed: int, n_streams: int) -> list[np.random.Generator]:
    """Independent random streams of one seed."""
    return [np.random.default_rng([whole_number("seed", seed), 0, stream]) for stream in range(n_streams)]


def _names(stem: str, number: int) -> tuple[str, ...]:
    return tuple(f"{stem}_{i}" for i in range(number))
