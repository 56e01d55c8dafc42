"""How much arithmetic a score needs: multiplications and additions of the matrix products.

A product of (m, k) and (k, n) counts 2·m·k·n. Embeddings, softmax, normalisation and activations
are left out, as usual: together they are about one percent.
"""

from __future__ import annotations

from collections.abc import Iterable

from deployments.inference.bert_graphs import Shape


def pair_flops(shape: Shape, length: int, cut: bool = True) -> int:
    """FLOPs of one pair of `length` tokens without padding.

    `cut`: in the last layer only position 0 asks, so there all but keys and values is computed
    for one position.
    """
    last = layer_flops(shape, length, 1 if cut else length)
    return first_layers_flops(shape, length) + last + head_flops(shape)


def absorbed_flops(shape: Shape, length: int) -> int:
    """FLOPs of one pair where the last layer's keys and values are absorbed as well.

    Their weights meet the one query and the one mixture of each head, and the states of all
    tokens are read as they are, by each head.
    """
    projections = 4 * 2 * shape.width * shape.width
    attention = 2 * 2 * shape.heads * length * shape.width
    last = projections + attention + feed_forward_flops(shape, 1)
    return first_layers_flops(shape, length) + last + head_flops(shape)


def first_layers_flops(shape: Shape, length: int) -> int:
    return (shape.layers - 1) * layer_flops(shape, length, length)


def head_flops(shape: Shape) -> int:
    """Pooler and classifier."""
    return 2 * shape.width * (shape.width + 1)


def layer_flops(shape: Shape, length: int, asking: int) -> int:
    """FLOPs of one layer where `asking` of `length` positions are computed from all of them."""
    square = 2 * shape.width * shape.width
    keys_and_values = 2 * length * square
    query_and_output = 2 * asking * square
    attention = 2 * 2 * asking * length * shape.width
    return keys_and_values + query_and_output + attention + feed_forward_flops(shape, asking)


def feed_forward_flops(shape: Shape, positions: int) -> int:
    return 2 * 2 * positions * shape.width * shape.intermediate


def total_flops(shape: Shape, lengths: Iterable[int], cut: bool = True) -> int:
    return sum(pair_flops(shape, length, cut) for length in lengths)
