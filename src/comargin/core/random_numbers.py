# mypy: ignore-errors
"""Random numbers inside compiled loops: xoshiro256++ (Blackman and Vigna, 2021) with its state in an array.

A NumPy ``Generator`` cannot be passed to a cached loop; four uint64 can. `random_state_array` makes the state from one
seed per independent block, so results do not depend on the number of threads.
"""

import numpy as np

from .compiled import compiled


def random_state_array(seed):
    """Four uint64 state words from one integer seed, spread by SplitMix64 (never all zero)."""
    mask = (1 << 64) - 1
    words = []
    x = int(seed) & mask
    for _ in range(4):
        x = (x + 0x9E3779B97F4A7C15) & mask
        z = x
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        words.append(z ^ (z >> 31))
    return np.array(words, dtype=np.uint64)


@compiled
def next_uint64(state):
    """Next 64 random bits; advances ``state`` in place."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return result


@compiled
def random_below(state, n):
    """Uniform integer in [0, n), 1 <= n < 2^32, without bias (Lemire, 2019: multiply, reject the short bucket)."""
    bound = np.uint64(n)
    word = np.uint64(0xFFFFFFFF)
    product = (next_uint64(state) >> np.uint64(32)) * bound
    if (product & word) < bound:
        short = (np.uint64(4294967296) - bound) % bound
        while (product & word) < short:
            product = (next_uint64(state) >> np.uint64(32)) * bound
    return np.int64(product >> np.uint64(32))


@compiled
def shuffle(state, values, count):
    """Fisher-Yates shuffle of ``values[:count]`` in place."""
    for i in range(count - 1, 0, -1):
        j = random_below(state, i + 1)
        values[i], values[j] = values[j], values[i]
