from __future__ import annotations

from dataclasses import replace

from tests.contracts.memory_tracker import Tracker
from tests.tracker.stores import ALL, LATER, make_record, minute
from tracker.records import Feedback, HitRecord, JudgedScore, Outcome, RetrievalRecord, Window


def retrieval(
    retrieval_id: str, *hits: tuple[str, float | None], after: float = 0
) -> RetrievalRecord:
    """A retrieval whose candidates are these documents' chunks, with these relevances."""
    (like,) = make_record(retrieval_id).hits
    chunks = tuple(chunk_of(like, place, *hit) for place, hit in enumerate(hits))
    return replace(make_record(retrieval_id, after), hits=chunks)


def chunk_of(like: HitRecord, place: int, document_id: str, relevance: float | None) -> HitRecord:
    return replace(
        like,
        hit_id=f"{document_id}#{place}",
        document_id=document_id,
        chunk_index=place,
        logit=None,
        relevance=relevance,
        scored=relevance is not None,
    )


def judge(
    tracker: Tracker, retrieval_id: str, document_id: str, outcome: Outcome, at: float = 0
) -> None:
    tracker.feedback("acme", Feedback(retrieval_id, document_id, outcome, minute(at)))


def test_a_judgement_comes_with_the_best_relevance_of_its_documents_chunks(
    tracker: Tracker,
) -> None:
    tracker.record(
        [retrieval("r1", ("guide", 0.25), ("other", 0.99), ("guide", 0.75), ("guide", None))]
    )
    judge(tracker, "r1", "guide", "relevant")
    judged = JudgedScore("r1", "guide", 0.75, "minilm@1f3c", "relevant")
    assert tracker.find_judged_scores(ALL) == [judged]


def test_each_judgement_stands_beside_its_own_retrieval_only(tracker: Tracker) -> None:
    tracker.record([retrieval("r1", ("guide", 0.25)), retrieval("r2", ("guide", 0.75), after=1)])
    second = replace(retrieval("r3", ("guide", 0.5)), model="other@2")  # at the moment of r1
    tracker.record([second])
    judge(tracker, "r1", "guide", "not_relevant", at=1)
    judge(tracker, "r2", "guide", "highly_relevant", at=2)
    judge(tracker, "r3", "guide", "partially_relevant", at=3)
    assert tracker.find_judged_scores(ALL) == [
        JudgedScore("r3", "guide", 0.5, "other@2", "partially_relevant"),
        JudgedScore("r2", "guide", 0.75, "minilm@1f3c", "highly_relevant"),
        JudgedScore("r1", "guide", 0.25, "minilm@1f3c", "not_relevant"),
    ]


def test_a_relevance_of_zero_is_a_score_and_none_is_not(tracker: Tracker) -> None:
    tracker.record([retrieval("r1", ("zero", 0.0), ("unscored", None))])
    judge(tracker, "r1", "zero", "not_relevant")
    judge(tracker, "r1", "unscored", "relevant")
    assert [one.document_id for one in tracker.find_judged_scores(ALL)] == ["zero"]


def test_what_nobody_judged_is_no_judged_score(tracker: Tracker) -> None:
    tracker.record([retrieval("r1", ("guide", 0.5))])
    assert tracker.find_judged_scores(ALL) == []


def test_a_second_judgement_replaces_the_first(tracker: Tracker) -> None:
    tracker.record([retrieval("r1", ("guide", 0.5))])
    judge(tracker, "r1", "guide", "relevant")
    judge(tracker, "r1", "guide", "not_relevant", at=1)
    assert [one.outcome for one in tracker.find_judged_scores(ALL)] == ["not_relevant"]


def test_judged_scores_are_windowed_by_the_judgement_and_paged(tracker: Tracker) -> None:
    tracker.record([retrieval(f"r{at}", ("a", 0.5), ("b", 0.5), after=at) for at in range(2)])
    tracker.record([replace(retrieval("w", ("a", 0.5)), corpus="wiki")])
    for at, (retrieval_id, document_id) in enumerate(
        [("r0", "a"), ("r0", "b"), ("r1", "a"), ("w", "a")]
    ):
        judge(tracker, retrieval_id, document_id, "relevant", at=at)

    def found(window: Window, **page: int) -> list[tuple[str, str]]:
        judged = tracker.find_judged_scores(window, **page)
        return [(one.retrieval_id, one.document_id) for one in judged]

    assert found(ALL) == [("w", "a"), ("r1", "a"), ("r0", "b"), ("r0", "a")]
    assert found(ALL, limit=2, offset=1) == [("r1", "a"), ("r0", "b")]
    assert found(Window("acme", since=minute(1), until=minute(3))) == [("r1", "a"), ("r0", "b")]
    assert found(Window("acme", "wiki")) == [("w", "a")]
    assert found(Window("other")) == []


def test_a_purge_takes_judged_scores_along(tracker: Tracker) -> None:
    tracker.record([retrieval("r1", ("guide", 0.5))])
    judge(tracker, "r1", "guide", "relevant")
    tracker.purge_step(LATER)
    assert tracker.find_judged_scores(ALL) == []


def test_what_a_fallback_found_is_recorded_and_is_no_document_of_the_corpus(
    tracker: Tracker,
) -> None:
    record = retrieval("r1", ("guide", 0.5), ("guide", 0.9), ("https://e.org/1", 0.8))
    own, *others = record.hits
    hits = (own, *(replace(hit, origin="http") for hit in others))
    tracker.record([replace(record, hits=hits)])
    judge(tracker, "r1", "guide", "relevant")
    judge(tracker, "r1", "https://e.org/1", "relevant")
    assert tracker.get_record("acme", "r1").record.hits == hits
    assert tracker.find_retrieved_document_ids(ALL) == ["guide"]
    assert [(one.document_id, one.relevance) for one in tracker.find_judged_scores(ALL)] == [
        ("guide", 0.5)
    ]
