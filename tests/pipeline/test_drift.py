from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.drift import Drift, check_drift, kept
from pipeline.legs import Variant, VariantKind


def vector(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def variant(kind: VariantKind, *values: float, number: int = 1) -> Variant:
    return Variant(number, kind, kind, vector=vector(*values) if values else None)


QUERY = vector(1, 0)


@pytest.mark.parametrize("kind", ["rewrite", "template", "hyde", "step_back", "multi_query"])
def test_a_variant_of_any_kind_can_drift(kind: VariantKind) -> None:
    far = variant(kind, 3, 4)
    assert check_drift(QUERY, [far], 0.7) == (Drift(far, 0.6, True),)


def test_a_variant_at_the_threshold_has_not_drifted() -> None:
    near = variant("rewrite", 3, 4)
    assert [drift.drifted for drift in check_drift(QUERY, [near], 0.6)] == [False]


def test_lengths_of_vectors_do_not_matter() -> None:
    (drift,) = check_drift(vector(256, 0), [variant("hyde", 0.5, 0)], 0.99)
    assert (drift.cosine, drift.drifted) == (1.0, False)


def test_an_opposite_variant_has_a_negative_cosine() -> None:
    (drift,) = check_drift(QUERY, [variant("hyde", -2, 0)], -0.5)
    assert (drift.cosine, drift.drifted) == (-1.0, True)


def test_without_a_direction_there_is_no_cosine_and_no_drift() -> None:
    missing, zero = variant("hyde"), variant("rewrite", 0, 0, number=2)
    broken = variant("template", np.nan, 1, number=3)
    expected = tuple(Drift(v, None, False) for v in (missing, zero, broken))
    assert check_drift(QUERY, [missing, zero, broken], 0.7) == expected


def test_without_a_vector_of_the_query_nothing_drifts() -> None:
    far = variant("hyde", 0, 1)
    assert check_drift(None, [far], 0.7) == (Drift(far, None, False),)


def test_only_the_drop_mode_drops_what_drifted() -> None:
    far, near = variant("hyde", 0, 1), variant("rewrite", 1, 0, number=2)
    drifts = check_drift(QUERY, [far, near], 0.7)
    assert kept(drifts, "drop") == (near,)
    assert kept(drifts, "observe") == (far, near)
    assert kept(drifts, "off") == (far, near)
