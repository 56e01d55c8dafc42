"""Terms tell what a chunk's metadata says."""

from __future__ import annotations

from typing import Any

from deployments.stores.terms import metadata_terms


def test_terms_tell_kinds_and_places_apart() -> None:
    metadata: list[dict[str, Any]] = [
        {"k": 1},
        {"k": "1"},
        {"k": True},
        {"k": "True"},
        {"k": [1]},
        {"k": {"1": 1}},
        {"k1": 1},
        {"k": None},
    ]
    terms = [tuple(metadata_terms(each)) for each in metadata]

    assert len(set(terms)) == len(terms)
    assert terms[-1] == ()
    assert metadata_terms({"k": 1}) == metadata_terms({"k": 1.0})
    assert metadata_terms({"k": 0}) == metadata_terms({"k": -0.0})
    assert metadata_terms({"a.b": 1, "": 2}) == []
