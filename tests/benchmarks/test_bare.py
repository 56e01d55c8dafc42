"""The applications without model work, as far as they run without Ray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.serve import Application

from benchmarks.bare import BareArgs, Scorer, answer, build_bare, build_ours, rows_of
from deployments import app, scorer
from deployments.composer import Composer
from deployments.config import AppArgs, ScorerArgs
from deployments.inference.truncation import AS_CONFIGURED, Truncation
from deployments.ranking import RerankAnswer, rerank_texts
from pipeline.scoring import Pair, ScoreAnswer
from tests.deployments.gateway import RecordingGateway, serving

TEXTS = ["one", "two", "three"]


class ScoringGateway(RecordingGateway):
    """Ranks as the Composer does, with the scorer that does no work."""

    async def rerank(
        self,
        tenant: str,
        query: str,
        documents: Sequence[str],
        truncation: Truncation,
        remaining_ms: float,
    ) -> RerankAnswer:
        async def score(query: str, pairs: Sequence[Pair]) -> ScoreAnswer:
            scorer = Scorer(ScorerArgs())
            return await scorer.score(tenant, query, pairs, truncation, remaining_ms)

        return await rerank_texts(query, documents, score)


def parts_of(application: Application) -> dict[str, Any]:
    """The class of each deployment that the first one calls, by name."""
    parts = application._bound_deployment.init_args[0]
    return {name: part._bound_deployment.func_or_class for name, part in parts.items()}


def depth(application: Application | None) -> int:
    """How many deployments stand one behind another."""
    if application is None:
        return 0
    return 1 + depth(application._bound_deployment.init_args[0])


async def test_a_bare_answer_has_the_results_and_about_the_size_of_ours() -> None:
    bare = answer(await rows_of(None, "query", TEXTS))
    async with serving(ScoringGateway()) as client:
        response = await client.post("/v1/rerank", json={"query": "query", "documents": TEXTS})
    ours = response.json()
    assert ours["results"] == bare["results"]
    assert abs(len(str(ours)) - len(str(bare))) < 20


async def test_every_pair_has_the_same_score_at_once() -> None:
    pairs = [Pair("1", "one"), Pair("2", "two")]
    scored = await Scorer(ScorerArgs()).score("tenant", "query", pairs, AS_CONFIGURED, 1.0)
    assert [score.logit for score in scored.scores] == [1.5, 1.5]
    assert (scored.tally.passes, scored.tally.tokens) == (2, 284)


def test_ours_is_the_real_application_but_for_the_scorer() -> None:
    args = AppArgs(embedder=None)
    ours, real = parts_of(build_ours(args)), parts_of(app.build(args))
    assert ours["Scorer"] is Scorer
    assert real["Scorer"] is scorer.Scorer
    assert ours["Composer"] is Composer
    assert ours | {"Scorer": scorer.Scorer} == real


def test_a_bare_handler_has_as_many_workers_behind_it_as_hops() -> None:
    assert [depth(build_bare(BareArgs(hops=hops))) for hops in (0, 1, 2)] == [1, 2, 3]
