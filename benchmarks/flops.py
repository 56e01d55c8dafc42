"""How much arithmetic a score needs: multiplications and additions of the matrix products.

A product of (m, k) and (k, n) counts 2·m·k·n. Embeddings, softmax, normalisation and activations
are left out, as usual: together they are about one percent.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.architectures import Shape


def pair_flops(shape: Shape, length: int, cut: bool = True) -> int:
    """FLOPs of one pair of `length` tokens without padding.

    `cut`: in the last layer only position 0 asks, so there all but keys and values is computed
    for one position.
    """
    layers = [layer_flops(shape, length, length)] * (shape.layers - 1)
    last = layer_flops(shape, length, 1 if cut else length)
    return sum(layers) + last + 2 * shape.width * (shape.width + 1)  # pooler and classifier


def layer_flops(shape: Shape, length: int, asking: int) -> int:
    """FLOPs of one layer where `asking` of `length` positions are computed from all of them."""
    square = 2 * shape.width * shape.width
    keys_and_values = 2 * length * square
    query_and_output = 2 * asking * square
    attention = 2 * 2 * asking * length * shape.width
    feed_forward = 2 * 2 * asking * shape.width * shape.intermediate
    return keys_and_values + query_and_output + attention + feed_forward


def total_flops(shape: Shape, lengths: Iterable[int], cut: bool = True) -> int:
    return sum(pair_flops(shape, length, cut) for length in lengths)
