from __future__ import annotations

from benchmarks.quality import Memory, StageFigures, StageScorer, table_of
from pipeline.metrics import Quality
from pipeline.scoring import Pair
from tests.fakes import CountingScorer

PAIRS = [Pair("1", "one"), Pair("2", "two"), Pair("3", "three")]


async def test_a_stage_counts_what_it_asks_for_though_another_has_paid_for_it() -> None:
    source = CountingScorer({"one": 1.0, "two": 2.0, "three": 3.0})
    memory = Memory(source)
    first, second = StageScorer(memory), StageScorer(memory)
    await first("q", PAIRS[:2])
    answer = await second("q", PAIRS[::-1])
    assert source.asked == ["one", "two", "three"]
    assert (first.passes, second.passes) == (2, 3)
    assert [score.logit for score in answer.scores] == [3.0, 2.0, 1.0]
    assert answer.model == "fake@1"


async def test_a_pair_asked_for_twice_is_two_passes_for_one_pair() -> None:
    stage = StageScorer(Memory(CountingScorer({"one": 1.0})))
    await stage("q", PAIRS[:1])
    await stage("q", PAIRS[:1])
    assert (stage.passes, len(stage.digests)) == (2, 1)
    quality = Quality(10, 0.5, 0.5, 0.5, 0.5, queries=1, left_out=0)
    table = table_of([StageFigures("+ rerank", quality, stage.passes, len(stage.digests))])
    assert list(table.columns[-1].cells) == ["2.000"]
