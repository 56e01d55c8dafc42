"""Token ids for cross-encoders and dense encoders, equal to the reference tokenizer's."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from deployments.inference.errors import ModelError
from deployments.inference.truncation import (
    AS_CONFIGURED,
    MAX_CHARACTERS_PER_TOKEN,
    Side,
    Truncation,
    kept,
    limits_in,
)
from deployments.inference.words import Ids, encoder_of

logger = logging.getLogger(__name__)

# The library reads this at every call. Its own pool has a thread for each core of the host,
# whatever share of them this process was given, and deadlocks in a forked child.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

FEWEST_TOKENS = 8
REMEMBERED_QUERIES = 64
PAD_TOKENS = ("[PAD]", "<pad>", "<|endoftext|>")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPair:
    """One model input: a (query, text) pair, or a text alone for a dense encoder.

    `ids` and `type_ids` are (length,). `truncated` says that the model does not see all of it.
    """

    ids: NDArray[np.int32]
    type_ids: NDArray[np.int32]
    truncated: bool

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The special tokens before, between and after one or two sequences.

    `gaps` are (2, n) each: their ids and their segment ids. `types` holds a segment id for each
    sequence.
    """

    gaps: tuple[NDArray[np.int32], ...]
    types: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many special tokens there are."""
        return sum(gap.shape[1] for gap in self.gaps)


class PairTokenizer:
    """A tokenizer.json with a window of `max_tokens`, safe to share between threads.

    No call changes the shared tokenizer: truncation is done here, on ids. A text is first cut to
    `max_characters` (16 a token), which bounds the time spent on a megabyte of text and may halve
    a word there; only the text gives way to the rest. Special tokens written out in a text are
    ordinary text.
    """

    def __init__(self, path: Path, max_tokens: int, own: Truncation = AS_CONFIGURED):
        """`own` is where pairs are cut unless a call says otherwise.

        ModelError if the file is unusable or the window is too small.
        """
        if max_tokens < FEWEST_TOKENS:
            raise ModelError(f"max_tokens must be at least {FEWEST_TOKENS}, not {max_tokens}")
        self.max_tokens = max_tokens
        self.max_characters = max_tokens * MAX_CHARACTERS_PER_TOKEN
        self.own = own
        self.tokenizer = load_tokenizer(path)
        self.pad_id = find_pad_id(self.tokenizer)
        switch_off_own_limits(self.tokenizer, path, max_tokens)
        self.pair_frame = find_frame(self.tokenizer, path, ("a", "b"))
        self.text_frame = find_frame(self.tokenizer, path, ("a",))
        self.encode_bare = encoder_of(self.tokenizer)
        # The texts of one request come in slices, and its query is encoded once for all of them.
        self.encode_query = lru_cache(REMEMBERED_QUERIES)(self._encode_query)

    def encode_pairs(
        self, query: str, documents: Sequence[str], truncation: Truncation = AS_CONFIGURED
    ) -> list[EncodedPair]:
        """Encode one query with each document, in order."""
        limits = limits_in(self.max_tokens, truncation, self.own)
        before, between, after = self.pair_frame.gaps
        query_type, text_type = self.pair_frame.types
        query_ids, query_cut = self.encode_query(query, limits.query)
        head = joined(before, query_ids, query_type, between)
        left = self.max_tokens - self.pair_frame.size - len(query_ids)
        room = max(0, min(limits.document, left))
        return [
            encoded(joined(head, ids, text_type, after), query_cut or cut)
            for ids, cut in self.encode_within(documents, room, limits.side)
        ]

    def _encode_query(self, query: str, room: int) -> tuple[Ids, bool]:
        ((ids, cut),) = self.encode_within([query], room, "right")
        return ids, cut

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedPair]:
        """Encode single texts, in order; each keeps its beginning."""
        before, after = self.text_frame.gaps
        (text_type,) = self.text_frame.types
        room = self.max_tokens - self.text_frame.size
        return [
            encoded(joined(before, ids, text_type, after), cut)
            for ids, cut in self.encode_within(texts, room, "right")
        ]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of whole texts, special ones not included."""
        return [len(ids) for ids in self.encode_bare(texts)]

    def encode_within(self, texts: Sequence[str], room: int, side: Side) -> list[tuple[Ids, bool]]:
        """Return `room` ids of each text at most, and whether that is less than all of it."""
        limit = self.max_characters
        all_ids = self.encode_bare([text[kept(len(text), limit, side)] for text in texts])
        return [
            (ids[kept(len(ids), room, side)], len(ids) > room or len(text) > limit)
            for ids, text in zip(all_ids, texts, strict=True)
        ]

    def pad(self, batch: Sequence[EncodedPair], length: int = 0) -> dict[str, NDArray[np.int64]]:
        """Return input_ids, attention_mask and token_type_ids, each (n, longest).

        With a `length` they are as long as that at least.
        """
        shape = (len(batch), max([length, *(pair.length for pair in batch)]))
        ids = np.full(shape, self.pad_id, np.int64)
        mask = np.zeros(shape, np.int64)
        types = np.zeros(shape, np.int64)
        for row, pair in enumerate(batch):
            ids[row, : pair.length] = pair.ids
            mask[row, : pair.length] = 1
            types[row, : pair.length] = pair.type_ids
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def joined(
    before: NDArray[np.int32], ids: Ids, segment: int, after: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return (2, n), ids and segment ids: `ids` of one segment between two (2, n) others."""
    start = before.shape[1]
    end = start + len(ids)
    tokens = np.empty((2, end + after.shape[1]), np.int32)
    tokens[:, :start] = before
    tokens[0, start:end] = ids
    tokens[1, start:end] = segment
    tokens[:, end:] = after
    return tokens


def encoded(tokens: NDArray[np.int32], truncated: bool) -> EncodedPair:
    return EncodedPair(tokens[0], tokens[1], truncated)


def load_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise ModelError(f"cannot use {path} as a tokenizer: {error}") from error


def switch_off_own_limits(tokenizer: Tokenizer, path: Path, max_tokens: int) -> None:
    own = (tokenizer.truncation or {}).get("max_length", max_tokens)
    if own != max_tokens:
        logger.info("%s truncates to %s tokens; the configured %s apply", path, own, max_tokens)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True


def find_pad_id(tokenizer: Tokenizer) -> int:
    """Return the pad id of the file's own padding, else of the usual pad tokens, else 0."""
    if tokenizer.padding is not None:
        return int(tokenizer.padding["pad_id"])
    known = (tokenizer.token_to_id(token) for token in PAD_TOKENS)
    return next((token for token in known if token is not None), 0)


def find_frame(tokenizer: Tokenizer, path: Path, samples: Sequence[str]) -> Frame:
    """Read off where the tokenizer's own post-processor puts special tokens.

    Post-processing each pair would give the same ids, but it also combines the overflow of both
    sides: for two long texts that takes 150 ms and 500 MB a pair.
    """
    bare = [tokenizer.encode(sample, add_special_tokens=False) for sample in samples]
    framed = tokenizer.post_process(bare[0], bare[1] if len(bare) == 2 else None, True)
    owners = [index for index, one in enumerate(bare) for _ in one.ids]
    gaps: list[list[tuple[int, int]]] = [[] for _ in range(len(samples) + 1)]
    ordinary: list[tuple[int, int]] = []
    for token, segment, special in zip(
        framed.ids, framed.type_ids, framed.special_tokens_mask, strict=True
    ):
        if special:
            gaps[owners[len(ordinary) - 1] + 1 if ordinary else 0].append((token, segment))
        else:
            ordinary.append((token, segment))
    bare_ids = [token for one in bare for token in one.ids]
    if set(owners) != set(range(len(bare))) or [token for token, _ in ordinary] != bare_ids:
        raise ModelError(f"{path} does not put the text after the query")
    types = (ordinary[owners.index(index)][1] for index in range(len(samples)))
    return Frame(tuple(np.array(gap, np.int32).reshape(-1, 2).T for gap in gaps), tuple(types))
