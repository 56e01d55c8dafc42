"""The application's status: what each replica says of itself, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

Statuses = Mapping[str, Sequence[Mapping[str, Any]]]


def summary(by_name: Statuses) -> dict[str, Any]:
    """Sum the counters over replicas; a part without a status is named."""
    recorder = first(by_name, "Recorder")
    return {
        "version": version("onepass"),
        "model": served_model(by_name),
        "providers": providers_of(by_name),
        "missing": [name for name, replicas in by_name.items() if not replicas],
        "counters": counters_of(by_name),
        "tracker": {k: v for k, v in recorder.items() if k != "retention"},
        "retention": recorder.get("retention"),
        "deployments": by_name,
    }


def first(by_name: Statuses, name: str) -> Mapping[str, Any]:
    """The status of a part's first replica, empty if it has none."""
    return next(iter(by_name.get(name, ())), {})


def served_model(by_name: Statuses) -> str | None:
    """The first scorer's model: the deployment's, or a remote one's that the Composer calls."""
    statuses = (first(by_name, name) for name in ("Scorer", "Composer"))
    return next((status["model"] for status in statuses if status.get("model")), None)


def providers_of(by_name: Statuses) -> dict[str, list[str]]:
    """The ONNX Runtime providers really in use, by part."""
    return {
        name: sorted({status["provider"] for status in by_name[name]})
        for name in ("Scorer", "Embedder")
        if name in by_name
    }


def counters_of(by_name: Statuses) -> dict[str, Any]:
    """Sum what the Scorer and Composer replicas counted."""
    scorers = [status["counters"] for status in by_name.get("Scorer", [])]
    composers = by_name.get("Composer", [])

    def total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
        return sum(row[name] for row in rows)

    tokens, padded = total(scorers, "tokens"), total(scorers, "padded_tokens")
    return {
        "searches": total(composers, "searches"),
        "degraded_searches": total(composers, "degraded_searches"),
        "pairs_requested": total(scorers, "pairs_requested"),
        "pairs_scored": total(scorers, "pairs_scored"),
        "pairs_reused": total(composers, "pairs_reused"),
        "pairs_cached": total(scorers, "pairs_cached"),
        "pairs_shared": total(scorers, "pairs_shared"),
        "pairs_failed": total(scorers, "pairs_failed"),
        "padding_ratio": round(1 - tokens / padded, 4) if padded else None,
        "records_dropped": total(composers, "records_dropped"),
    }
