"""Tiny tokenizers of the three families that cross-encoders use, made on the spot."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

WORDS = ["berlin", "people", "museum", "city", "river", "old", "new", "the", "of", "in", "don"]
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def word_piece(words: Sequence[str]) -> Tokenizer:
    """WordPiece over BERT's special tokens and these: `[CLS] a [SEP] b [SEP]`, b of segment 1."""
    pieces = [*BERT_SPECIAL, *words]
    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(BERT_SPECIAL)
    return tokenizer


def bert() -> Tokenizer:
    letters = [*string.ascii_lowercase, *string.digits, *string.punctuation, *"漢字éß"]
    return word_piece([*WORDS, *letters, *(f"##{letter}" for letter in letters), "##ing"])


def cased_bert() -> Tokenizer:
    """As `bert`, but it keeps case and accents."""
    tokenizer = bert()
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    return tokenizer


def bert_with_an_added_token() -> Tokenizer:
    """As `bert`, but a token that is not a special one reaches over two words."""
    tokenizer = bert()
    tokenizer.add_tokens([AddedToken("old city", normalized=False)])
    return tokenizer


def roberta() -> Tokenizer:
    """Byte-level BPE: `<s> a </s></s> b </s>`, without segments; a word begins with its space."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=ROBERTA_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


def roberta_with_prefix_space() -> Tokenizer:
    """As `roberta`, but query and text each begin with a space."""
    tokenizer = roberta()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def xlm_roberta() -> Tokenizer:
    """Unigram: `<s> a </s></s> b </s>`, where ▁ stands for the space before every word."""
    letters = [*string.ascii_letters, *string.punctuation, *string.digits, "漢", "字", "▁"]
    pieces = [(piece, 0.0) for piece in ROBERTA_SPECIAL]
    pieces += [(f"▁{word}", -3.0) for word in WORDS] + [(letter, -6.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.add_special_tokens(ROBERTA_SPECIAL[:4])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


FAMILIES = {
    make.__name__: make
    for make in (
        bert,
        cased_bert,
        bert_with_an_added_token,
        roberta,
        roberta_with_prefix_space,
        xlm_roberta,
    )
}
