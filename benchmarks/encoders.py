"""Cross-encoders with random weights, made on the spot: real shapes, no download, no torch.

The weights bear the names of the transformers library, so that every peer loads the same model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.architectures import bert_graph
from deployments.inference.bert_graphs import EMBEDDINGS, EPSILON, Shape, Weights

MINILM_L6 = Shape("MiniLM-L6", 6, 384, 12, 1536)
TINYBERT_L2 = Shape("TinyBERT-L2", 2, 128, 2, 512)

DENSE_GAIN = 1.2
CLASSIFIER_GAIN = 2.0
SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def random_weights(shape: Shape, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Return weights under BERT's names, such that logits of different texts spread over units."""
    random = np.random.default_rng(seed)
    return {
        name: draw(random, name, size).astype(np.float32)
        for name, size in weight_sizes(shape).items()
    }


def save_model(folder: Path, shape: Shape, weights: Weights, tokenizer_json: Path) -> Path:
    """Write a model's folder that ONNX Runtime, transformers, its kin and Onepass can load.

    `tokenizer_json` is a WordPiece tokenizer of BERT's kind with `shape.vocabulary` words at most.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = json.loads(tokenizer_json.read_text(encoding="utf-8"))
    words: dict[str, int] = tokenizer["model"]["vocab"]
    settings = {"name": shape.name, "kind": "cross_encoder", "max_tokens": shape.positions}
    texts = {
        "tokenizer.json": tokenizer_json.read_text(encoding="utf-8"),
        "vocab.txt": "".join(f"{word}\n" for word in sorted(words, key=lambda word: words[word])),
        "config.json": json.dumps(bert_config(shape), indent=2),
        "tokenizer_config.json": json.dumps(tokenizer_config(shape, tokenizer), indent=2),
        "special_tokens_map.json": json.dumps(SPECIAL_TOKENS, indent=2),
        "onepass.json": json.dumps({"settings": settings}, indent=2),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "model.onnx").write_bytes(bert_graph(shape, weights).SerializeToString())
    write_safetensors(folder / "model.safetensors", weights)
    return folder


def weight_sizes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The names and sizes of BertForSequenceClassification with one label."""
    width, wide = shape.width, shape.intermediate
    tables = {"word": shape.vocabulary, "position": shape.positions, "token_type": 2}
    sizes: dict[str, tuple[int, ...]] = {
        f"{EMBEDDINGS}.{name}_embeddings.weight": (rows, width) for name, rows in tables.items()
    }
    sizes |= pair(f"{EMBEDDINGS}.LayerNorm", width)
    for layer in range(shape.layers):
        prefix = f"bert.encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            sizes |= pair(f"{prefix}.attention.{name}", width, width)
        sizes |= pair(f"{prefix}.attention.output.LayerNorm", width)
        sizes |= pair(f"{prefix}.intermediate.dense", wide, width)
        sizes |= pair(f"{prefix}.output.dense", width, wide)
        sizes |= pair(f"{prefix}.output.LayerNorm", width)
    return sizes | pair("bert.pooler.dense", width, width) | pair("classifier", 1, width)


def pair(prefix: str, *size: int) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}.weight": size, f"{prefix}.bias": size[:1]}


def draw(random: np.random.Generator, name: str, size: tuple[int, ...]) -> NDArray[np.float64]:
    """Weights that keep hidden states of unit variance and attention neither flat nor one-hot."""
    if name.endswith("bias"):
        return random.normal(scale=0.1, size=size)
    if "LayerNorm" in name:
        return random.normal(1.0, 0.1, size)
    if "embeddings" in name:
        return random.normal(scale=1.0 if "word" in name else 0.5, size=size)
    gain = CLASSIFIER_GAIN if name.startswith("classifier") else DENSE_GAIN
    return random.normal(scale=gain / math.sqrt(size[-1]), size=size)


def bert_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "num_labels": 1,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": EPSILON,
        "pad_token_id": 0,
    }


def tokenizer_config(shape: Shape, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    normaliser = tokenizer.get("normalizer") or {}
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": bool(normaliser.get("lowercase", True)),
        "model_max_length": shape.positions,
        **SPECIAL_TOKENS,
    }


def write_safetensors(path: Path, weights: Weights) -> None:
    """Length of the header as 8 little-endian bytes, the header as JSON, then the raw numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, values in weights.items():
        start, end = end, end + values.nbytes
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [start, end]}
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for values in weights.values():
            file.write(np.ascontiguousarray(values, "<f4").tobytes())
