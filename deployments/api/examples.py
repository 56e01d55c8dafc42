"""An example of each operation for its document: what is sent, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Example(NamedTuple):
    """An answer of status 200, and the body it answers, None where none is sent."""

    answer: Any
    body: Any = None


SCORER = "ms-marco-MiniLM-L-12-v2@1f3c9a70"
EMBEDDER = "bge-small-en-v1.5@5d2e11b8"
RETRIEVAL = "01a2319d-57c0-74af-9503-6842c80e69a4"
QUERY = "How much is a night ticket for a child?"
OLD = "A night ticket costs 18 euros, and 9 euros for a child."
OTHER = "Parking costs 3 euros a night."

PARAMETERS: Mapping[str, str] = {
    "corpus": "default",
    "document_id": "prices-2024",
    "retrieval_id": RETRIEVAL,
    "name": "judged-scores",
}

WENT = {
    "verdict": "correct",
    "corrections": 0,
    "rerank_applied": True,
    "degraded": [],
    "forward_passes": 5,
    "reused_scores": 2,
    "cached_scores": 0,
    "shared_scores": 0,
    "model": SCORER,
    "timings_ms": {"embed": 4.2, "retrieve": 9.8, "correct": 61.4, "total": 76.3},
}
SEARCH = Example(
    {
        "retrieval_id": RETRIEVAL,
        "query": QUERY,
        "rewritten_query": None,
        "corpus": "default",
        "hits": [
            {
                "id": "prices-2024",
                "document_id": "prices-2024",
                "chunk_index": 0,
                "title": None,
                "text": OLD,
                "source": None,
                "origin": None,
                "refined": None,
                "metadata": {"year": 2024},
                "rank": 1,
                "score": 0.9998222580462885,
                "score_kind": "cross_encoder",
                "scored": True,
                "truncated": False,
                "grade": "correct",
                "scores": {
                    "retrieval": 0.821,
                    "fusion": 0.03278688524590164,
                    "cross_encoder": {"logit": 8.635, "relevance": 0.9998222580462885},
                    "boosted": None,
                },
                "legs": [
                    {
                        "leg": "dense",
                        "variant": 0,
                        "rank": 1,
                        "score": 0.821,
                        "contribution": 0.01639344262295082,
                    },
                    {
                        "leg": "bm25",
                        "variant": 0,
                        "rank": 1,
                        "score": 1.93,
                        "contribution": 0.01639344262295082,
                    },
                ],
            }
        ],
        "context": f"[1] {OLD}",
        "citations": [
            {
                "number": 1,
                "hit_id": "prices-2024",
                "document_id": "prices-2024",
                "source": None,
                "origin": None,
            }
        ],
        "left_out": [],
        **WENT,
        "trace": None,
    },
    {"query": QUERY, "top_k": 5, "final_top_k": 1, "corrective": True, "rerank": True},
)
RECORDED = {
    "retrieval_id": RETRIEVAL,
    "corpus": "default",
    "query": QUERY,
    "retrieved_at": "2026-01-01T12:00:00+00:00",
    **WENT,
}
CANDIDATE = {
    "hit_id": "prices-2024",
    "document_id": "prices-2024",
    "chunk_index": 0,
    "rank": 1,
    "retrieval_rank": 1,
    "retrieval_score": 0.821,
    "fusion_score": 0.03278688524590164,
    "logit": 8.635,
    "relevance": 0.9998222580462885,
    "grade": "correct",
    "scored": True,
    "returned": True,
    "origin": None,
}
JUDGEMENT = {"document_id": "prices-2024", "outcome": "relevant"}
JUDGED = {
    "retrieval_id": RETRIEVAL,
    "document_id": "prices-2024",
    "relevance": 0.9998222580462885,
    "model": SCORER,
    "outcome": "relevant",
}

USAGE = {"prompt_tokens": 54, "total_tokens": 54}
BILLED = {"search_units": 1}
ASKED = {"query": QUERY, "documents": [OTHER, OLD], "top_n": 1}
BEST = {"index": 1, "relevance_score": 0.9998222580462885}
RERANK = Example(
    {
        "id": "7c9e6679f7424de095f5f0d5a0f2a1c3",
        "model": SCORER,
        "usage": USAGE,
        "results": [{**BEST, "logit": 8.635, "truncated": False, "tokens": 28}],
        "meta": {
            "api_version": {"version": "1"},
            "billed_units": BILLED,
            "forward_passes": 2,
            "cached_scores": 0,
            "shared_scores": 0,
            "unscored": [],
        },
    },
    ASKED,
)
RERANK_V2 = Example(
    {
        "id": "7c9e6679f7424de095f5f0d5a0f2a1c3",
        "model": SCORER,
        "usage": USAGE,
        "results": [BEST],
        "meta": {"api_version": {"version": "2"}, "billed_units": BILLED},
    },
    ASKED,
)
SCORE = Example(
    {
        "id": "7c9e6679f7424de095f5f0d5a0f2a1c3",
        "object": "list",
        "created": 1767268800,
        "model": SCORER,
        "data": [{"index": 0, "object": "score", "score": 0.9998222580462885, "truncated": False}],
        "usage": {"prompt_tokens": 28, "total_tokens": 28},
    },
    {"text_1": QUERY, "text_2": [OLD]},
)
DOCUMENT = {"id": "prices-2024", "text": OLD, "metadata": {"year": 2024}}
STORED = {"id": "prices-2024", "status": "stored", "chunks": 1, "error": None}

# By operation id.
EXAMPLES: Mapping[str, Example] = {
    "search": SEARCH,
    "feedback": Example(
        {"retrieval_id": RETRIEVAL, **JUDGEMENT}, {"retrieval_id": RETRIEVAL, **JUDGEMENT}
    ),
    "list_retrievals": Example({"items": [RECORDED], "next": None}),
    "get_retrieval": Example(
        {
            **RECORDED,
            "hits": [CANDIDATE],
            "feedback": [{**JUDGEMENT, "given_at": "2026-01-01T12:05:00+00:00"}],
        }
    ),
    "report": Example({"report": "judged-scores", "items": [JUDGED], "next": None}),
    "rerank": RERANK,
    "rerank_v2": RERANK_V2,
    "rerank_texts": Example(
        [{"index": 1, "score": 0.9998222580462885}, {"index": 0, "score": 0.01821727}],
        {"query": QUERY, "texts": [OTHER, OLD]},
    ),
    "rank_passages": Example(
        {
            "rankings": [{"index": 1, "logit": 8.635}, {"index": 0, "logit": -3.987}],
            "usage": USAGE,
        },
        {
            "query": {"text": QUERY},
            "passages": [{"text": OTHER}, {"text": OLD}],
            "truncate": "END",
        },
    ),
    "score": SCORE,
    "score_unversioned": SCORE,
    "info": Example(
        {
            "model_id": "ms-marco-MiniLM-L-12-v2",
            "model_sha": "1f3c9a70",
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_input_length": 512,
            "max_client_batch_size": 1000,
            "auto_truncate": True,
            "version": "0.1.0",
        }
    ),
    "embed": Example(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.0, -0.8]}],
            "model": EMBEDDER,
            "usage": {"prompt_tokens": 12, "total_tokens": 12},
        },
        {"input": [QUERY], "input_type": "query"},
    ),
    "models": Example(
        {
            "object": "list",
            "data": [
                {
                    "id": SCORER,
                    "object": "model",
                    "created": 0,
                    "owned_by": "onepass",
                    "max_model_len": 512,
                },
                {"id": EMBEDDER, "object": "model", "created": 0, "owned_by": "onepass"},
            ],
        }
    ),
    "list_corpora": Example(
        {"items": [{"corpus": "default", "documents": 6, "chunks": 6}], "next": None}
    ),
    "get_corpus": Example({"corpus": "default", "documents": 6, "chunks": 6}),
    "drop_corpus": Example({"corpus": "default", "deleted": True}),
    "put_documents": Example(
        {"corpus": "default", "documents": [STORED]}, {"documents": [DOCUMENT]}
    ),
    "ingest_documents": Example({"line": 1, **STORED}, DOCUMENT),
    "list_documents": Example({"items": [{"id": "prices-2024", "title": None}], "next": None}),
    "get_document": Example(
        {
            "corpus": "default",
            "id": "prices-2024",
            "title": None,
            "source": None,
            "metadata": {"year": 2024},
            "chunks": [OLD],
        }
    ),
    "delete_document": Example({"corpus": "default", "id": "prices-2024", "deleted": True}),
    "purge": Example(
        {
            "before": "2026-01-01T00:00:00+00:00",
            "dry_run": True,
            "deleted": {"retrievals": 12, "hits": 600, "feedback": 3, "comparisons": 0},
        },
        {"before": "2026-01-01T00:00:00Z", "dry_run": True},
    ),
    "compact": Example({"bytes_before": 258_000_000, "bytes_after": 71_000_000}, {}),
    "status": Example(
        {
            "version": "0.1.0",
            "model": SCORER,
            "providers": {"Scorer": ["CPUExecutionProvider"]},
            "missing": [],
            "counters": {"searches": 1, "pairs_requested": 5, "pairs_scored": 5},
            "tracker": {"recorded": 1, "error": None, "retrievals": 1},
            "retention": {"last_run": None, "last_success": None, "last_error": None},
            "deployments": {"Scorer": [{"pid": 4711, "queued_tokens": 0}]},
        }
    ),
    "healthz": Example({"status": "alive"}),
    "readyz": Example({"status": "ready", "degraded": []}),
}
