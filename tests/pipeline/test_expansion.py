from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from pipeline.errors import OnepassError, Unavailable
from pipeline.expansion import ExpansionPlan, Turn, expand, question, unquoted
from pipeline.legs import Variant, VariantKind
from pipeline.prompts import Messages

HISTORY = [Turn("user", "Who wrote Faust?"), Turn("assistant", "Goethe.")]
HANGS = "hangs"


class ScriptedModel:
    """Answers by what the instruction asks for, in turn where several answers are given; an
    error is raised, HANGS never ends. Keeps the questions asked and counts calls under way."""

    def __init__(self, **answers: str | OnepassError | list[str | OnepassError]) -> None:
        self.answers = {
            kind: list(given) if isinstance(given, list) else [given]
            for kind, given in answers.items()
        }
        self.questions: list[tuple[str, str]] = []
        self.running = 0
        self.most_running = 0

    async def __call__(self, messages: Messages) -> str:
        kind = kind_of(messages[0])
        self.questions.append((kind, json.loads(messages[1]["content"])["question"]))
        answer = self.answers[kind].pop(0)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(3600 if answer == HANGS else 0)
        finally:
            self.running -= 1
        if isinstance(answer, OnepassError):
            raise answer
        return answer


def kind_of(system: Mapping[str, str]) -> str:
    starts = {
        "Rewrite": "rewrite",
        "Write the passage": "hyde",
        "Write one question": "step_back",
        "Write ": "multi_query",
    }
    return next(kind for start, kind in starts.items() if system["content"].startswith(start))


def texts(variants: tuple[Variant, ...]) -> list[tuple[int, VariantKind, str]]:
    return [(variant.number, variant.kind, variant.text) for variant in variants]


async def test_templates_need_no_language_model() -> None:
    plan = ExpansionPlan(templates=("how to {query}", "{query} {query}!"), hyde=2)
    expansion = await expand(plan, "bake {bread}", HISTORY, None)
    assert expansion.query == "bake {bread}"
    assert texts(expansion.variants) == [
        (1, "template", "how to bake {bread}"),
        (2, "template", "bake {bread} bake {bread}!"),
    ]
    assert expansion.failures == ()


async def test_all_variants_come_from_the_rewritten_query() -> None:
    model = ScriptedModel(
        rewrite='"When did Goethe die?"\n',
        hyde=["Goethe died in 1832.", "He was buried in Weimar."],
        step_back="What was Goethe's life?",
        multi_query="1. Goethe's year of death?\n2) Goethe died when?",
    )
    plan = ExpansionPlan(templates=("{query} (poet)",), hyde=2, step_back=True, multi_query=2)
    expansion = await expand(plan, "When did he die?", HISTORY, model)
    assert expansion.query == "When did Goethe die?"
    assert texts(expansion.variants) == [
        (1, "rewrite", "When did Goethe die?"),
        (2, "template", "When did Goethe die? (poet)"),
        (3, "step_back", "What was Goethe's life?"),
        (4, "multi_query", "Goethe's year of death?"),
        (5, "multi_query", "Goethe died when?"),
        (6, "hyde", "Goethe died in 1832."),
        (7, "hyde", "He was buried in Weimar."),
    ]
    assert model.questions[0] == ("rewrite", "When did he die?")
    assert {asked for _, asked in model.questions[1:]} == {"When did Goethe die?"}


async def test_all_but_the_rewriting_is_asked_in_parallel() -> None:
    model = ScriptedModel(hyde=["a", "b", "c"], step_back="d", multi_query="e")
    plan = ExpansionPlan(hyde=3, step_back=True, multi_query=1)
    await expand(plan, "q", [], model)
    assert model.most_running == 5


async def test_nothing_is_rewritten_without_a_history_or_where_it_is_off() -> None:
    model = ScriptedModel()
    assert (await expand(ExpansionPlan(), "q", [], model)).variants == ()
    assert (await expand(ExpansionPlan(rewrite=False), "q", HISTORY, model)).variants == ()
    assert model.questions == []


async def test_a_rewriting_that_only_spells_the_query_anew_is_no_variant() -> None:
    model = ScriptedModel(rewrite="when  DID he die?")
    expansion = await expand(ExpansionPlan(), "When did he die?", HISTORY, model)
    assert (expansion.query, expansion.variants) == ("When did he die?", ())


async def test_a_failed_rewriting_leaves_the_others_the_query_as_asked() -> None:
    model = ScriptedModel(rewrite=Unavailable("the endpoint answered 500"), step_back="Broader?")
    expansion = await expand(ExpansionPlan(step_back=True), "q", HISTORY, model)
    assert expansion.query == "q"
    assert texts(expansion.variants) == [(1, "step_back", "Broader?")]
    assert expansion.failures == ("rewrite: the endpoint answered 500",)
    assert model.questions == [("rewrite", "q"), ("step_back", "q")]


async def test_one_that_fails_leaves_the_others() -> None:
    model = ScriptedModel(hyde=[Unavailable("busy"), "a passage"], step_back=" \n", multi_query="x")
    plan = ExpansionPlan(hyde=2, step_back=True, multi_query=1)
    expansion = await expand(plan, "q", [], model)
    assert texts(expansion.variants) == [(1, "multi_query", "x"), (2, "hyde", "a passage")]
    assert expansion.failures == ("step_back: an empty answer", "hyde: busy")


async def test_what_is_there_in_time_is_kept_and_the_rest_is_cancelled() -> None:
    model = ScriptedModel(hyde=["a passage", HANGS], step_back=HANGS)
    plan = ExpansionPlan(hyde=2, step_back=True, timeout_s=0.05)
    expansion = await expand(plan, "q", [], model)
    assert texts(expansion.variants) == [(1, "hyde", "a passage")]
    assert expansion.failures == ("step_back: timed out", "hyde: timed out")
    assert model.running == 0


async def test_a_rewriting_that_hangs_leaves_the_templates() -> None:
    model = ScriptedModel(rewrite=HANGS, hyde=HANGS)
    plan = ExpansionPlan(templates=("about {query}",), hyde=1, timeout_s=0.02)
    expansion = await expand(plan, "q", HISTORY, model)
    assert texts(expansion.variants) == [(1, "template", "about q")]
    assert expansion.failures == ("rewrite: timed out", "hyde: timed out")


async def test_a_client_that_leaves_ends_every_call() -> None:
    model = ScriptedModel(hyde=[HANGS, HANGS])
    search = asyncio.create_task(expand(ExpansionPlan(hyde=2), "q", [], model))
    while model.running < 2:
        await asyncio.sleep(0)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert model.running == 0


async def test_a_bug_of_the_generator_is_not_taken_for_a_failure() -> None:
    async def broken(messages: Messages) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await expand(ExpansionPlan(step_back=True), "q", [], broken)


async def test_weights_go_by_kind_and_one_is_the_default() -> None:
    model = ScriptedModel(hyde="a passage")
    plan = ExpansionPlan(templates=("about {query}",), hyde=1, weights={"hyde": 0.5})
    expansion = await expand(plan, "q", [], model)
    assert [variant.weight for variant in expansion.variants] == [1.0, 0.5]


async def test_variants_that_repeat_the_query_or_each_other_count_once() -> None:
    model = ScriptedModel(hyde="ABOUT  q", multi_query="Q\nabout Q\nstraße\nSTRASSE")
    plan = ExpansionPlan(templates=("about {query}", "{query}"), hyde=1, multi_query=4)
    expansion = await expand(plan, "q", [], model)
    assert texts(expansion.variants) == [(1, "template", "about q"), (2, "multi_query", "straße")]
    assert expansion.failures == ()


async def test_of_many_other_wordings_only_as_many_as_asked_for_are_taken() -> None:
    answer = "Here are three:\n\n- one?\n* two?\n• three?\n4. four?"
    plan = ExpansionPlan(multi_query=3)
    expansion = await expand(plan, "q", [], ScriptedModel(multi_query=answer))
    assert [variant.text for variant in expansion.variants] == ["one?", "two?", "three?"]


@pytest.mark.parametrize(
    ("line", "wording"),
    [
        ("(3) what?", "what?"),
        ("12. what?", "what?"),
        ("1、什么是猫", "什么是猫"),
        ("2.什么是猫", "什么是猫"),
        ("3.5 mm jack?", "3.5 mm jack?"),
        ("10:30 train?", "10:30 train?"),
        ("-40 degrees?", "-40 degrees?"),
        ("2024 results?", "2024 results?"),
        ('1. "what?"', "what?"),
    ],
)
async def test_numbers_and_bullets_of_a_list_are_stripped(line: str, wording: str) -> None:
    model = ScriptedModel(multi_query=line)
    expansion = await expand(ExpansionPlan(multi_query=1), "q", [], model)
    assert [variant.text for variant in expansion.variants] == [wording]


async def test_answers_are_bounded_in_length() -> None:
    model = ScriptedModel(hyde="d" * 5_000, step_back="s" * 5_000, multi_query="m" * 5_000)
    plan = ExpansionPlan(hyde=1, step_back=True, multi_query=1)
    expansion = await expand(plan, "q", [], model)
    lengths = {variant.kind: len(variant.text) for variant in expansion.variants}
    assert lengths == {"step_back": 500, "multi_query": 500, "hyde": 2_000}


def test_a_question_is_one_line() -> None:
    assert question(" \u201cWhat\n is\tit?\u201d ") == "What is it?"


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ('"a"', "a"),
        ("«a»", "a"),
        ("「a」", "a"),
        ('"a" or "b"', '"a" or "b"'),
        ("'what's up'", "'what's up'"),
        ('"', '"'),
        ('""', ""),
        ('"a', '"a'),
        ("", ""),
    ],
)
def test_quotes_go_only_where_one_pair_holds_everything(text: str, stripped: str) -> None:
    assert unquoted(text) == stripped
