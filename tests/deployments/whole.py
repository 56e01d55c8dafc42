"""A gateway whose every answer has all that the application's own would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Any

from deployments.answers import Asked, search_answer
from deployments.inference.truncation import Truncation
from deployments.planning import plan_search, resolve
from deployments.ranking import RerankAnswer
from deployments.search_options import SearchArgs
from deployments.status import Statuses, summary
from pipeline.chain import SearchResult
from pipeline.documents import CorpusKey
from tests.deployments.gateway import RecordingGateway
from tests.docs.example import ALL_PARTS, read_request, run
from tests.records import comparison_of, record
from tracker.records import JudgedScore, Window

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCORER_STATUS = {
    "pid": 1,
    "model": "m@1",
    "provider": "CPUExecutionProvider",
    "counters": {
        "tokens": 90,
        "padded_tokens": 100,
        "pairs_requested": 5,
        "pairs_scored": 4,
        "pairs_cached": 1,
        "pairs_shared": 0,
        "pairs_failed": 0,
    },
}
RECORDER_STATUS = {"pid": 2, "error": None, "retention": {"last_run": AT, "deleted": 3}}


class WholeGateway(RecordingGateway):
    """Plans a search as the Composer does, and answers that of docs/pipeline.md."""

    def __init__(self) -> None:
        super().__init__()
        self.found: SearchResult | None = None

    async def search(
        self, tenant: str, request: Mapping[str, Any], remaining_ms: float
    ) -> dict[str, Any]:
        self.note("search", tenant, request, remaining_ms)
        plan_search(resolve(SearchArgs(), request, ALL_PARTS), request)
        if self.found is None:
            self.found = await run({**read_request(), "refine": True})
        asked = Asked("r", CorpusKey(tenant, "c"), "q", AT)
        return search_answer(self.found, asked, ("tracking",))

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        answer = await super().rerank(tenant, query, documents, truncation, remaining_ms)
        return replace(answer, ranked=tuple(one._replace(logit=0.5) for one in answer.ranked))

    async def delete(self, corpus: CorpusKey, document_id: str) -> int:
        self.note("delete", corpus, document_id)
        return 1

    async def report(
        self, name: str, window: Window, limit: int, offset: int
    ) -> list[dict[str, Any]]:
        self.note("report", name, window, limit, offset)
        judged = JudgedScore("r", "d", 0.5, "m", "relevant")
        return [asdict(comparison_of(record())), asdict(judged)][:limit]

    async def status(self) -> dict[str, Any]:
        parts: Statuses = {"Scorer": [SCORER_STATUS], "Recorder": [RECORDER_STATUS], "Composer": []}
        return summary(parts)
