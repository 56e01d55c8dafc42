"""English words, and the BM25 vectors that they make, for engines that take vectors alone.

Words are cut, stemmed and left out as LanceDB's English analyser does it, so that both engines
find much the same. Source of the stop words: the English list of the Natural Language Toolkit.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import Stemmer

from pipeline.vectors import SparseVector

# Term saturation and length normalisation, the usual constants.
K1 = 1.2
B = 0.75

# A vector is made when a chunk is written, and cannot follow the corpus's average length. This
# is that of chunks of 128 tokens, the default. A corpus of texts of another length ranks the
# same where its texts are alike in length; elsewhere long ones count a little more or less.
AVERAGE_LENGTH = 50.0

# The analyser drops longer words: they are addresses and encoded data.
LONGEST_WORD = 39

_WORD = re.compile(r"[^\W_]+")
_STEMMER = Stemmer.Stemmer("english")
_CACHED_WORDS = 65_536

STOP_WORDS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself
she her hers herself it its itself they them their theirs themselves what which who whom this
that these those am is are was were be been being have has had having do does did doing a an
the and but if or because as until while of at by for with about against between into through
during before after above below to from up down in out on off over under again further then
once here there when where why how all any both each few more most other some such no nor not
only own same so than too very s t can will just don should now d ll m o re ve y ain aren
couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
"""
# What has no mark to be taken off, and is a letter of its own.
_LETTERS = str.maketrans(
    {
        "æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "đ": "d", "ð": "d", "ł": "l", "þ": "th",
        "ı": "i",  # noqa: RUF001
        "ħ": "h", "ŋ": "n",
    }
)  # fmt: skip
_STOPPED = frozenset(STOP_WORDS.split())


def document_vector(text: str) -> SparseVector:
    """Return a document's side of BM25: for each term tf (k1 + 1) / (tf + k1 (1 - b + b l / L)),
    l its length and L the average one, in words. The engine multiplies by the term's idf.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
    """
    counts = Counter(map(term_id, words(text)))
    norm = K1 * (1 - B + B * counts.total() / AVERAGE_LENGTH)
    return _vector({term: n * (K1 + 1) / (n + norm) for term, n in counts.items()})


def query_vector(text: str) -> SparseVector:
    """Return the query's side of BM25: how often it has each term."""
    return _vector(Counter(map(term_id, words(text))))


def words(text: str) -> list[str]:
    """Return a text's stems, stop words and words of 40 characters and more left out."""
    found = (_stem(word) for word in _WORD.findall(text) if len(word) <= LONGEST_WORD)
    return [word for word in found if word]


@lru_cache(_CACHED_WORDS)
def term_id(word: str) -> int:
    """Return a word's 32-bit number; of 100,000 words, one or two share theirs with another."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "big")


@lru_cache(_CACHED_WORDS)
def _stem(word: str) -> str:
    """Lower, stem, drop stop words, take marks off letters, in the analyser's own order."""
    stem: str = _STEMMER.stemWord(word.lower())
    return "" if stem in _STOPPED else _fold(stem)


def _fold(word: str) -> str:
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return "".join(part for part in parts if not unicodedata.combining(part))


def _vector(weights: Mapping[int, float]) -> SparseVector:
    ids = sorted(weights)
    return SparseVector(
        np.array(ids, np.int64), np.array([weights[each] for each in ids], np.float32)
    )
