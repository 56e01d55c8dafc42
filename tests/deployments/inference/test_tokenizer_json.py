"""A tokenizer.json without limits of its own."""

from __future__ import annotations

import pytest

from deployments.inference.tokenizer_json import without_limits


def test_padding_and_truncation_are_off_and_all_else_stays() -> None:
    limited = '{"truncation": {"max_length": 12}, "model": {"vocab": {"漢": 1}}, "padding": {}}'
    assert without_limits(limited) == (
        '{"truncation": null, "model": {"vocab": {"漢": 1}}, "padding": null}'
    )


def test_limits_that_are_not_named_are_off_as_well() -> None:
    assert without_limits('{"version": "1.0"}') == (
        '{"version": "1.0", "padding": null, "truncation": null}'
    )


def test_what_is_no_json_object_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        without_limits("{")
    with pytest.raises(TypeError):
        without_limits("[]")
