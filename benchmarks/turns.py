"""Servers measured in turn by clients that ask without pause: all meet the machine's same moods."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from benchmarks.rounds import Say, rotated
from benchmarks.servers import Server

# Answers one request, given a number that no other request has.
Ask = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Contender:
    """`client` is what one client keeps open while it asks, one request after the other."""

    name: str
    client: Callable[[], contextlib.AbstractContextManager[Ask]]


@dataclass(frozen=True, slots=True)
class Turn:
    """Requests a second of all clients, and the seconds that each request took."""

    requests_per_s: float
    seconds: Sequence[float]


@dataclass(slots=True)
class Measured:
    """One contender's turns with so many clients; every figure is the median of its turns."""

    turns: list[Turn] = field(default_factory=list)

    @property
    def requests_per_s(self) -> float:
        return statistics.median(turn.requests_per_s for turn in self.turns)

    @property
    def p50_ms(self) -> float:
        return self.quantile_ms(0.5)

    @property
    def p95_ms(self) -> float:
        return self.quantile_ms(0.95)

    def quantile_ms(self, share: float) -> float:
        return 1e3 * statistics.median(
            float(np.quantile(turn.seconds, share)) for turn in self.turns
        )


# By number of clients, then contender.
Results = dict[int, dict[str, Measured]]


def run_rounds(
    contenders: Sequence[Contender], clients: Sequence[int], rounds: int, turn_s: float, say: Say
) -> Results:
    """Give each contender one turn a round with each number of clients, after one to warm up."""
    results: Results = {count: {one.name: Measured() for one in contenders} for count in clients}
    numbers = itertools.count()
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}" if number else "warming up")
        for count, contender in itertools.product(clients, rotated(contenders, number)):
            turn = take_turn(contender, count, turn_s, numbers)
            if number:
                results[count][contender.name].turns.append(turn)
    return results


def take_turn(contender: Contender, clients: int, turn_s: float, numbers: Iterator[int]) -> Turn:
    """Let so many clients ask, each until the turn is over; every request is waited for."""
    with ThreadPoolExecutor(clients) as threads:
        start = time.perf_counter()
        asking = [
            threads.submit(ask_on, contender, start + turn_s, numbers) for _ in range(clients)
        ]
        seconds = [one for client in asking for one in client.result()]
    return Turn(len(seconds) / (time.perf_counter() - start), seconds)


def ask_on(contender: Contender, end: float, numbers: Iterator[int]) -> list[float]:
    seconds: list[float] = []
    with contender.client() as ask:
        while not seconds or time.perf_counter() < end:
            start = time.perf_counter()
            ask(next(numbers))
            seconds.append(time.perf_counter() - start)
    return seconds


def http_contender(server: Server, query: str, texts: Sequence[str]) -> Contender:
    """A server asked to rerank these texts for a query of each request's own."""
    # Encoded once: what a client spends on its own work is no server's.
    documents = json.dumps(texts)

    @contextlib.contextmanager
    def client() -> Iterator[Ask]:
        connection = server.connect()
        yield lambda number: check(server.rerank(connection, body(number)), len(texts))
        connection.close()

    def body(number: int) -> bytes:
        own_query = json.dumps(f"{query} {number}")
        return f'{{"query": {own_query}, "documents": {documents}}}'.encode()

    return Contender(server.name, client)


def check(answer: bytes, texts: int) -> None:
    if answer.count(b'"relevance_score"') != texts:
        raise RuntimeError(f"an answer without {texts} scores: {answer[:300]!r}")
