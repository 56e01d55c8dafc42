"""Official clients, unmodified, ask the shipped application what docs/clients.md says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from tests.clients.blocks import BLOCKS, PAGE, SETUP, Block, leaving
from tests.clients.interpreter import ENVIRONMENTS, Outcome
from tests.docs.pages import section, table
from tests.e2e.serving import Server

pytestmark = [
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.skipif(
        not ENVIRONMENTS.exists(), reason="no .venv-clients: scripts/clients makes it"
    ),
]

Run = Callable[..., Outcome]
LITELLM = table(section(PAGE, "LiteLLM"), "model", "asks")
RAISED = table(section(PAGE, "What is raised"), "block", "wrong key", "invalid input")
TOO_LONG = "q" * 8193

SPACE: dict[str, Any] = {}
exec(SETUP, SPACE)
QUERY, DOCUMENTS = SPACE["query"], SPACE["documents"]


def native(server: Server, field: str = "relevance_score") -> list[list[Any]]:
    """The documents of the page by score, as /v1/rerank gives it."""
    body = {"query": QUERY, "documents": DOCUMENTS}
    results = server.http.post("/v1/rerank", json=body).json()["results"]
    return [[DOCUMENTS[one["index"]], one[field]] for one in results]


def embedded(server: Server, **body: Any) -> list[list[float]]:
    data = server.http.post("/v1/embeddings", json=body).json()["data"]
    return [one["embedding"] for one in data]


def left(outcome: Outcome, name: str) -> Any:
    assert outcome.error is None, outcome.message
    return outcome.left[name]


@pytest.mark.parametrize("name", leaving("ranked"))
def test_a_client_ranks_as_the_native_route_does(name: str, run: Run, server: Server) -> None:
    ranked = left(run(BLOCKS[name]), "ranked")
    assert ranked == native(server)
    assert ranked[0][0] == DOCUMENTS[1]
    assert all(0 <= score <= 1 for _, score in ranked)


@pytest.mark.parametrize("model", [row[0] for row in LITELLM])
def test_litellm_ranks_the_same_whatever_it_takes_us_for(
    model: str, run: Run, server: Server
) -> None:
    block = BLOCKS["LiteLLM 1"].with_("cohere/any", model)
    assert left(run(block), "ranked") == native(server)


def test_as_nim_the_scores_are_logits(run: Run, server: Server) -> None:
    assert left(run(BLOCKS["LiteLLM 3"]), "logits") == native(server, "logit")


@pytest.mark.parametrize(
    "fewer",
    [
        BLOCKS["Cohere 1"].with_("top_n=3", "top_n=1"),
        BLOCKS["LiteLLM 1"].with_("query=query", "query=query, top_n=1"),
        BLOCKS["LlamaIndex 2"].with_("top_n=3", "top_n=1"),
    ],
    ids=lambda block: block.group,
)
def test_the_best_come_alone_where_fewer_are_asked_for(
    fewer: Block, run: Run, server: Server
) -> None:
    assert left(run(fewer), "ranked") == native(server)[:1]


@pytest.mark.parametrize("name", leaving("vectors"))
def test_a_client_embeds_as_the_native_route_does(name: str, run: Run, server: Server) -> None:
    vectors = left(run(BLOCKS[name]), "vectors")
    assert vectors == [pytest.approx(one, abs=1e-7) for one in embedded(server, input=DOCUMENTS)]


def test_openai_reads_vectors_as_numbers_too(run: Run) -> None:
    block = BLOCKS["OpenAI 1"]
    floats = block.with_("input=documents", 'input=documents, encoding_format="float"')
    expected = left(run(block), "vectors")
    assert left(run(floats), "vectors") == [pytest.approx(one, abs=1e-7) for one in expected]


def test_a_question_is_embedded_as_one_and_lies_nearest_to_its_answer(
    run: Run, server: Server
) -> None:
    vector = left(run(BLOCKS["OpenAI 2"]), "vector")
    (expected,) = embedded(server, input=QUERY, input_type="query")
    assert vector == pytest.approx(expected, abs=1e-7)
    assert vector != pytest.approx(embedded(server, input=QUERY)[0], abs=1e-3)
    products = [dot(vector, one) for one in left(run(BLOCKS["OpenAI 1"]), "vectors")]
    assert products.index(max(products)) == 1


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_openai_lists_the_models_that_answers_name(run: Run, server: Server) -> None:
    lines = "ranked = [one.id for one in client.models.list()]\n"
    block = Block("sdks", BLOCKS["OpenAI 1"].text + lines)
    body = {"query": QUERY, "documents": DOCUMENTS}
    assert left(run(block), "ranked") == [
        server.http.post("/v1/rerank", json=body).json()["model"],
        server.http.post("/v1/embeddings", json={"input": "a"}).json()["model"],
    ]


def test_documents_come_back_to_who_asks_for_them(run: Run) -> None:
    asked = BLOCKS["LiteLLM 1"].with_('documents[one["index"]]', 'one["document"]["text"]')
    assert left(run(asked), "ranked")[0][0] == DOCUMENTS[1]
    unasked = BLOCKS["Cohere 2"].with_("return_documents=True", "return_documents=False")
    assert run(unasked.with_("one.document.text", "one.document")).left["ranked"][0][0] is None


@pytest.mark.parametrize(("name", "error"), [(row[0], row[1]) for row in RAISED])
def test_a_wrong_key_raises_the_clients_own_error(name: str, error: str, run: Run) -> None:
    outcome = run(BLOCKS[name], KEY="op_wrong")
    assert outcome.error == error
    assert "API key is needed" in outcome.message
    assert "op_wrong" not in outcome.message


@pytest.mark.parametrize(("name", "error"), [(row[0], row[2]) for row in RAISED])
def test_invalid_input_raises_the_clients_own_error(name: str, error: str, run: Run) -> None:
    embeds = name.startswith("OpenAI")
    outcome = run(BLOCKS[name], **({"documents": ["a", ""]} if embeds else {"query": TOO_LONG}))
    assert outcome.error == error
    assert ("at least 1 character" if embeds else "at most 8192 characters") in outcome.message
    assert TOO_LONG not in outcome.message


def test_an_error_never_passes_for_a_ranking(run: Run) -> None:
    """LlamaIndex's client of text-embeddings-inference looks at no status."""
    assert run(BLOCKS["LlamaIndex 3"], KEY="op_wrong").error is not None


def test_tokens_in_place_of_text_are_refused_saying_so(run: Run) -> None:
    """As LangChain sends them by default."""
    block = BLOCKS["OpenAI 1"].with_("input=documents", "input=[[464, 3072], [318]]")
    outcome = run(block)
    assert outcome.error == "openai.UnprocessableEntityError"
    assert "must be text" in outcome.message


@pytest.mark.parametrize(
    ("error", "block"),
    [
        (
            "cohere.TooManyRequestsError",
            BLOCKS["Cohere 1"].with_("top_n=3", 'request_options={"max_retries": 0}'),
        ),
        ("litellm.RateLimitError", BLOCKS["LiteLLM 1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_overload_raises_the_clients_own_error(
    error: str, block: Block, run: Run, server: Server
) -> None:
    headers = server.http.headers
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
        body = {"query": QUERY, "documents": long_texts(error)}
        busy = asyncio.create_task(http.post("/v1/rerank", json=body))
        await asyncio.to_thread(server.wait_until, lambda: queued(server) > 2_000, 30)
        outcome = await asyncio.to_thread(run, block, documents=long_texts("later"))
        busy.cancel()
    await asyncio.to_thread(server.wait_until, lambda: queued(server) == 0, 30)
    assert outcome.error == error
    assert "queue is full" in outcome.message


def long_texts(about: str) -> list[str]:
    return [f"{about} {number} " + "and so on " * 200 for number in range(100)]


def queued(server: Server) -> int:
    (scorer,) = server.status()["deployments"]["Scorer"]
    tokens: int = scorer["queued_tokens"]
    return tokens
