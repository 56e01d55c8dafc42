"""A remote reranker: what goes out, whose score is whose, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from deployments.provider_options import ProviderArgs
from deployments.providers.http import Http, Refused
from deployments.providers.rerankers import CALLS_AT_ONCE, RemoteScorer
from pipeline.errors import DeadlineExceeded, Unavailable
from pipeline.scoring import Pair, PairScore, ScoreAnswer, Tally
from tests.deployments.providers.service import Reply, Service


def pairs(*texts: str) -> list[Pair]:
    return [Pair(f"digest of {text}", text) for text in texts]


def scorer(service: Service, http: Http, dialect: Any = "cohere", **more: Any) -> RemoteScorer:
    return RemoteScorer(
        ProviderArgs(base_url=service.url, dialect=dialect, model="m", **more), http
    )


def results(*ranking: tuple[Any, Any]) -> Reply:
    return Reply({"results": [{"index": i, "relevance_score": score} for i, score in ranking]})


def relevances(answer: ScoreAnswer) -> list[float | None]:
    return [score.relevance for score in answer.scores]


def completion(text: str) -> Reply:
    return Reply({"choices": [{"message": {"content": text}}]})


async def failure(remote: RemoteScorer, texts: Sequence[str] = ("one", "two")) -> str:
    with pytest.raises(Unavailable) as caught:
        await remote.score("q", pairs(*texts), 30)
    return caught.value.message


@pytest.mark.parametrize(
    ("dialect", "path", "reply"),
    [
        ("cohere", "/v2/rerank", results((2, 0.9), (0, 0.5), (1, 0.1))),
        ("jina", "/v1/rerank", results((2, 0.9), (0, 0.5), (1, 0.1))),
        ("vllm", "/v1/rerank", results((2, 0.9), (0, 0.5), (1, 0.1))),
        ("ollama", "/api/rerank", results((2, 0.9), (0, 0.5), (1, 0.1))),
        ("standard", "/v1/rerank", results((2, 0.9), (0, 0.5), (1, 0.1))),
        (
            "tei",
            "/rerank",
            Reply(
                [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.5}, {"index": 1, "score": 0.1}]
            ),
        ),
        (
            "doubao",
            "/api/knowledge/service/rerank",
            Reply({"code": 0, "data": {"scores": [0.5, 0.1, 0.9]}}),
        ),
        (
            "llm",
            "/chat/completions",
            completion('[{"index":2,"score":0.9},{"index":0,"score":0.5},{"index":1,"score":0.1}]'),
        ),
    ],
)
async def test_scores_come_back_in_the_order_of_the_pairs(
    service: Service, http: Http, dialect: str, path: str, reply: Reply
) -> None:
    service.says(reply)
    remote = scorer(service, http, dialect)
    assert await remote.score("q", pairs("a", "b", "c"), 30) == ScoreAnswer(
        f"{dialect}/m",
        (PairScore(None, 0.5), PairScore(None, 0.1), PairScore(None, 0.9)),
        Tally(passes=3),
    )
    assert [asked.path for asked in service.asked] == [path]
    assert remote.invalid == 0


async def test_logits_are_kept_and_their_relevance_is_the_sigmoid(
    service: Service, http: Http
) -> None:
    service.says(Reply({"rankings": [{"index": 1, "logit": 0.0}, {"index": 0, "logit": -0.7}]}))
    answer = await scorer(service, http, "nim").score("q", pairs("a", "b"), 30)
    assert [score.logit for score in answer.scores] == [-0.7, 0.0]
    assert relevances(answer) == [pytest.approx(0.331812, abs=1e-6), 0.5]


async def test_the_text_alone_goes_out(service: Service, http: Http) -> None:
    service.says(results((0, 0.5)))
    await scorer(service, http).score("q", [Pair("digest", "text")], 30)
    assert service.bodies == [{"model": "m", "query": "q", "documents": ["text"], "top_n": 1}]


async def test_a_path_of_its_own_goes_before_the_dialects(service: Service, http: Http) -> None:
    service.says(results((0, 0.5)))
    await scorer(service, http, path="/team/rank").score("q", pairs("a"), 30)
    assert service.asked[0].path == "/team/rank"


async def test_no_pairs_ask_nothing(service: Service, http: Http) -> None:
    answer = await scorer(service, http).score("q", [], 30)
    assert answer == ScoreAnswer("cohere/m", (), Tally())
    assert service.asked == []


async def test_what_does_not_count_is_counted_and_no_score_is_made_up(
    service: Service, http: Http
) -> None:
    service.says(results((0, 0.9), (0, 0.8), (9, 0.7), (True, 0.6), (1, None), (2, 1.5)))
    remote = scorer(service, http)
    answer = await remote.score("q", pairs("a", "b", "c", "d"), 30)
    missing = PairScore(None, None, reason="cohere/m gave no score for this text")
    assert answer.scores == (PairScore(None, 0.9), missing, missing, missing)
    assert answer.tally == Tally(passes=1)
    assert remote.invalid == 5


async def test_a_shorter_list_of_scores_leaves_the_rest_unscored(
    service: Service, http: Http
) -> None:
    service.says(Reply({"data": {"scores": [0.9]}}))
    answer = await scorer(service, http, "doubao").score("q", pairs("a", "b"), 30)
    assert relevances(answer) == [0.9, None]


async def test_a_longer_list_of_scores_adds_none(service: Service, http: Http) -> None:
    service.says(Reply({"data": {"scores": [0.9, 0.8, 0.7]}}))
    remote = scorer(service, http, "doubao")
    assert relevances(await remote.score("q", pairs("a", "b"), 30)) == [0.9, 0.8]
    assert remote.invalid == 1


async def test_more_texts_than_a_call_takes_go_in_several(service: Service, http: Http) -> None:
    """Each text is a number of hundredths, which is the score that it gets."""
    service.answer = lambda body: results(
        *((index, int(text) / 100) for index, text in enumerate(body["documents"]))
    )
    texts = [str(number) for number in range(23)]
    answer = await scorer(service, http, max_documents=3).score("q", pairs(*texts), 30)
    assert relevances(answer) == [number / 100 for number in range(23)]
    assert sorted(len(body["documents"]) for body in service.bodies) == [2, *[3] * 7]
    assert answer.tally == Tally(passes=23)


async def test_a_judge_gets_twenty_candidates_at_most(service: Service, http: Http) -> None:
    service.says(completion('[{"index": 0, "score": 1}]'))
    await scorer(service, http, "llm").score("q", pairs(*map(str, range(41))), 30)
    sizes = [body["messages"][1]["content"].count('"index"') for body in service.bodies]
    assert sorted(sizes) == [1, 20, 20]


async def test_a_failed_call_takes_no_other_with_it(service: Service, http: Http) -> None:
    service.answer = lambda body: (
        Reply(status=500) if body["documents"] == ["b"] else results((0, 0.5))
    )
    remote = scorer(service, http, max_documents=1)
    answer = await remote.score("q", pairs("a", "b", "c"), 30)
    failed = PairScore(None, None, reason="cohere/m answered 500")
    assert answer.scores == (PairScore(None, 0.5), failed, PairScore(None, 0.5))
    assert answer.tally == Tally(passes=2)


async def test_a_ranking_that_the_service_would_not_take_is_called_refused(
    service: Service, http: Http
) -> None:
    service.says(Reply(status=422))
    with pytest.raises(Refused, match="cohere/m answered 422"):
        await scorer(service, http, max_documents=1).score("q", pairs("a", "b"), 30)


async def test_a_service_that_refuses_one_call_and_fails_at_another_has_failed(
    service: Service, http: Http
) -> None:
    service.answer = lambda body: Reply(status=422 if body["documents"] == ["a"] else 503)
    remote = scorer(service, http, max_documents=1, retries=0)
    with pytest.raises(Unavailable, match="cohere/m answered 503") as caught:
        await remote.score("q", pairs("a", "b"), 30)
    assert not isinstance(caught.value, Refused)


async def test_a_call_that_was_too_late_is_called_so(service: Service, http: Http) -> None:
    service.answer = lambda body: (
        Reply(hangs=True) if body["documents"] == ["b"] else results((0, 0.5))
    )
    remote = scorer(service, http, max_documents=1)
    answer = await remote.score("q", pairs("a", "b"), 2.0)
    reason = "cohere/m gave no answer in time"
    assert answer.scores == (PairScore(None, 0.5), PairScore(None, None, reason=reason, late=True))


async def test_a_call_that_waited_until_its_time_was_over_is_not_made(
    service: Service, http: Http
) -> None:
    service.says(Reply(hangs=True))
    texts = [str(number) for number in range(2 * CALLS_AT_ONCE)]
    with pytest.raises(DeadlineExceeded):
        await scorer(service, http, max_documents=1).score("q", pairs(*texts), 0.3)
    assert len(service.asked) <= CALLS_AT_ONCE


async def test_a_service_that_fails_twice_is_asked_a_third_time(
    service: Service, http: Http
) -> None:
    service.says(Reply(status=500), Reply(status=500), results((0, 0.5)))
    assert relevances(await scorer(service, http).score("q", pairs("a"), 30)) == [0.5]


async def test_a_scored_body_of_an_error_status_is_no_success(service: Service, http: Http) -> None:
    service.says(Reply(results((0, 0.9), (1, 0.8)).body, status=503))
    assert await failure(scorer(service, http)) == "cohere/m answered 503"


@pytest.mark.parametrize("dialect", ["cohere", "jina", "tei", "vllm", "nim", "doubao", "llm"])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(content=b"<html>Sign in</html>"),
        Reply(content=b'{"results": ['),
        Reply({"message": "quota exceeded"}),
        Reply({"results": {}, "rankings": {}, "data": {}, "choices": {}}),
        Reply(status=401),
    ],
    ids=["html", "cut off", "an error", "wrong shapes", "refused"],
)
async def test_an_answer_without_a_ranking_is_a_failure(
    service: Service, http: Http, dialect: str, reply: Reply
) -> None:
    service.says(reply)
    assert (await failure(scorer(service, http, dialect))).startswith(f"{dialect}/m")


@pytest.mark.parametrize(
    ("dialect", "reply"),
    [
        ("cohere", results()),
        ("cohere", results((0, None), (7, 0.9))),
        ("tei", Reply([{"index": 0, "score": 7.4}])),
        ("doubao", Reply({"data": {"scores": []}})),
        ("llm", completion("[]")),
        ("llm", completion('[{"index": 0, "score": "high"}]')),
    ],
)
async def test_an_answer_in_which_nothing_counts_is_a_failure(
    service: Service, http: Http, dialect: str, reply: Reply
) -> None:
    service.says(reply)
    message = await failure(scorer(service, http, dialect))
    assert message == f"{dialect}/m gave no score for this text"


async def test_a_judge_that_only_talks_is_a_failure(service: Service, http: Http) -> None:
    service.says(completion("The first text is the best."))
    message = await failure(scorer(service, http, "llm"))
    assert message == "llm/m: the model did not answer in JSON"


async def test_no_answer_in_time_is_a_deadline(service: Service, http: Http) -> None:
    service.says(Reply(hangs=True))
    with pytest.raises(DeadlineExceeded, match="cohere/m gave no answer in time"):
        await scorer(service, http).score("q", pairs("a"), 0.2)
