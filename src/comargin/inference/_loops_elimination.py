# mypy: ignore-errors
"""Variable elimination on a label graph, for blocks of rows that share one graph.

Step s of a plan eliminates label v_s. Its bucket is the sum of the clique tables and of the messages of earlier steps
that contain v_s and no label eliminated before; it depends on v_s and on the labels S_s of the step, |S_s| its width:

    message_s(y_S) = max over y_v of bucket_s(y_v, y_S) .

A message goes to the bucket of the first label of S_s that is eliminated later, so steps form a forest. Downward, with
below_s(y_S) the best that the rest of the component can add for given y_S,

    below_child(y_S) = max over the other labels of [bucket_s + below_s] - message_child ,

and the max-marginals of v_s are the maxima of bucket_s + below_s with v_s on and off.

The last axis of all arrays are the rows of a block: a step is a few vector instructions per state, and the plan is read
once for the whole block.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled

# State j of S_s has label t of S_s in bit t. The index of a source is a sum over the bits of j, read from two short
# tables, for the lowest bits and for the others.
LOW_BITS = 6
_LOW_MASK = (1 << LOW_BITS) - 1


class EliminationPlan(NamedTuple):
    """Steps in the order of elimination, and the sources of each bucket, as int64 arrays.

    All tables that enter buckets lie in one array of values: first the potentials p_v of all steps, then the states of
    the cliques, then the messages.
    """

    column: np.ndarray  # (n_inputs,), column of each input in the potentials
    # Per step; ``message`` and ``*_start`` have one entry more.
    label: np.ndarray  # v_s
    width: np.ndarray  # |S_s|
    message: np.ndarray  # first position of message_s in the values
    scope_start: np.ndarray
    scope: np.ndarray  # S_s
    source_start: np.ndarray
    # Per source, by level.
    first: np.ndarray  # position of its state 0
    level: np.ndarray  # the highest bit of j that it depends on, or -1
    stride: np.ndarray  # what v_s adds to its index
    child: np.ndarray  # the step whose message it is, or -1
    index_start: np.ndarray
    index: np.ndarray  # index tables for the bits of j


@compiled
def padded(block):
    """Columns of an array for a block of rows: a power of two would use only a few sets of the cache."""
    return block + 8 if block > 8 else block


@compiled
def largest_bucket(plan):
    """Most states of the S_s of any step."""
    width = 0
    for s in range(plan.width.shape[0]):
        width = max(width, plan.width[s])
    return 1 << width


@compiled
def load_block(potentials, rows, start, m, column, values):
    """Inputs of m rows, the row index last: values[k, r] = potentials[rows[start + r], column[k]]."""
    for r in range(m):
        i = rows[start + r]
        for k in range(column.shape[0]):
            values[k, r] = potentials[i, column[k]]


@compiled
def bucket(plan, s, values, m, off, on):
    """Sum of the sources of step s for every state of S_s, with v_s off and on.

    States grow by one bit per level, and a source is added at the level of its highest bit: a pair costs as much as its
    place in the scope, not as the whole bucket.
    """
    for r in range(m):
        off[0, r] = 0.0
        on[0, r] = values[s, r]
    size = 1
    q = plan.source_start[s]
    end = plan.source_start[s + 1]
    for level in range(-1, plan.width[s]):
        if level >= 0:
            for j in range(size):
                for r in range(m):
                    off[size + j, r] = off[j, r]
                    on[size + j, r] = on[j, r]
            size *= 2
        while q < end and plan.level[q] == level:
            first, stride, low = plan.first[q], plan.stride[q], plan.index_start[q]
            high = low + min(1 << plan.width[s], 1 << LOW_BITS)
            for j in range(size):
                k = first + plan.index[low + (j & _LOW_MASK)] + plan.index[high + (j >> LOW_BITS)]
                for r in range(m):
                    off[j, r] += values[k, r]
                    on[j, r] += values[k + stride, r]
            q += 1


@compiled
def eliminate(potentials, rows, plan, block, labels):
    """Write the best labels of the plan's components into ``labels`` uint8 (n, K); ties are broken in favour of off.

    Only the given rows int64 (m,) are solved, ``block`` at a time.
    """
    n_steps = plan.label.shape[0]
    largest = largest_bucket(plan)
    n_inputs = plan.column.shape[0]
    block = max(1, min(block, rows.shape[0]))
    lanes = padded(block)
    values = np.empty((plan.message[n_steps], lanes))
    off = np.empty((largest, lanes))
    on = np.empty((largest, lanes))
    turned_on = np.empty((plan.message[n_steps] - n_inputs, block), dtype=np.uint8)
    for start in range(0, rows.shape[0], block):
        m = min(block, rows.shape[0] - start)
        load_block(potentials, rows, start, m, plan.column, values)
        for s in range(n_steps):
            bucket(plan, s, values, m, off, on)
            for j in range(1 << plan.width[s]):
                k = plan.message[s] + j
                for r in range(m):
                    turned_on[k - n_inputs, r] = on[j, r] > off[j, r]
                    values[k, r] = max(off[j, r], on[j, r])
        for s in range(n_steps - 1, -1, -1):
            first, last = plan.scope_start[s], plan.scope_start[s + 1]
            for r in range(m):
                i = rows[start + r]
                j = 0
                for t in range(last - 1, first - 1, -1):
                    j = 2 * j + labels[i, plan.scope[t]]
                labels[i, plan.label[s]] = turned_on[plan.message[s] - n_inputs + j, r]


@compiled
def eliminate_both_ways(potentials, rows, plan, block, difference):
    """Write max-marginal differences of the plan's labels into ``difference`` (n, K).

    The best score with the label on minus the best with it off; only the given rows int64 (m,), ``block`` at a time.
    """
    n_steps = plan.label.shape[0]
    largest = largest_bucket(plan)
    block = max(1, min(block, rows.shape[0]))
    lanes = padded(block)
    values = np.empty((plan.message[n_steps], lanes))
    off = np.empty((largest, lanes))
    on = np.empty((largest, lanes))
    best = np.empty((2 * largest, lanes))
    for start in range(0, rows.shape[0], block):
        m = min(block, rows.shape[0] - start)
        load_block(potentials, rows, start, m, plan.column, values)
        for s in range(n_steps):
            bucket(plan, s, values, m, off, on)
            for j in range(1 << plan.width[s]):
                k = plan.message[s] + j
                for r in range(m):
                    values[k, r] = max(off[j, r], on[j, r])
        # Once the bucket that a message enters has been visited, below_child replaces the message.
        for s in range(n_steps - 1, -1, -1):
            size = 1 << plan.width[s]
            bucket(plan, s, values, m, off, on)
            for r in range(m):
                best[0, r] = best[1, r] = -np.inf
            for j in range(size):
                k = plan.message[s] + j
                for r in range(m):
                    below = values[k, r] if size > 1 else 0.0
                    off[j, r] += below
                    on[j, r] += below
                    best[0, r] = max(best[0, r], off[j, r])
                    best[1, r] = max(best[1, r], on[j, r])
            for r in range(m):
                difference[rows[start + r], plan.label[s]] = best[1, r] - best[0, r]
            for q in range(plan.source_start[s], plan.source_start[s + 1]):
                if plan.child[q] >= 0:
                    to_child(plan, s, q, values, m, off, on, best)


@compiled
def to_child(plan, s, q, values, m, off, on, best):
    """Replace the message that is source q of step s by below_child."""
    first, stride, low = plan.first[q], plan.stride[q], plan.index_start[q]
    high = low + min(1 << plan.width[s], 1 << LOW_BITS)
    n_states = plan.message[plan.child[q] + 1] - first
    for k in range(n_states):
        for r in range(m):
            best[k, r] = -np.inf
    for j in range(1 << plan.width[s]):
        k = plan.index[low + (j & _LOW_MASK)] + plan.index[high + (j >> LOW_BITS)]
        for r in range(m):
            best[k, r] = max(best[k, r], off[j, r])
            best[k + stride, r] = max(best[k + stride, r], on[j, r])
    for k in range(n_states):
        for r in range(m):
            values[first + k, r] = best[k, r] - values[first + k, r]
