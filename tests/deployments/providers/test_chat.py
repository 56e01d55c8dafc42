"""A chat endpoint: what it is asked, and that only text is an answer."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.provider_options import ChatArgs
from deployments.providers.chat import Chat
from deployments.providers.http import Http
from pipeline.errors import Unavailable
from tests.deployments.providers.service import Reply, Service

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]


@pytest.fixture
def chat(service: Service, http: Http) -> Chat:
    return Chat(ChatArgs(base_url=f"{service.url}/v1", model="m", max_tokens=64), http)


async def test_the_first_choice_is_the_answer(service: Service, chat: Chat) -> None:
    service.says(
        Reply(
            {
                "id": "chatcmpl-1",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": "Because."}},
                    {"index": 1, "message": {"role": "assistant", "content": "No idea."}},
                ],
            }
        )
    )
    assert await chat.generate(MESSAGES, 30) == "Because."
    (asked,) = service.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {"model": "m", "messages": MESSAGES, "temperature": 0.0, "max_tokens": 64}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        None,
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}}]},
        {"choices": [{"message": {"content": " \n"}}]},
        {"choices": [{"message": {"content": ["Because."]}}]},
        {"error": {"message": "no such model"}},
    ],
)
async def test_an_answer_without_text_is_none(service: Service, chat: Chat, answer: Any) -> None:
    service.says(Reply(answer))
    with pytest.raises(Unavailable, match=r"^chat/m: the answer has no text$"):
        await chat.generate(MESSAGES, 30)


async def test_a_failing_endpoint_is_unavailable(service: Service, chat: Chat) -> None:
    service.says(Reply(status=404))
    with pytest.raises(Unavailable, match=r"^chat/m answered 404$"):
        await chat.generate(MESSAGES, 30)
