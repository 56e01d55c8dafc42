"""Who may import what, seen from outside: each check runs in a process of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BLOCK = """
import importlib.abc, sys
blocked = {blocked!r}
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked or name in blocked:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Block())
import {module}
"""
HEAVY = ["ray", "fastapi", "pydantic", "lancedb", "pyarrow", "onnx", "onnxruntime", "tokenizers"]


def imports(module: str, blocked: list[str]) -> subprocess.CompletedProcess[str]:
    code = BLOCK.format(blocked=set(blocked), module=module)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("module", "blocked"),
    [
        ("pipeline.chain", [*HEAVY, "duckdb", "tracker", "deployments"]),
        ("pipeline.filters", [*HEAVY, "duckdb", "tracker", "deployments"]),
        ("tracker.store", [*HEAVY, "deployments"]),
        ("tracker.retention", [*HEAVY, "duckdb", "deployments"]),
        ("tracker.errors", [*HEAVY, "duckdb", "deployments"]),
        ("deployments.composer", ["onnx", "onnxruntime", "tokenizers", "duckdb", "lancedb"]),
        ("deployments.ingress", ["onnx", "onnxruntime", "tokenizers", "duckdb", "lancedb"]),
        (
            "deployments.retrieval",
            ["onnx", "onnxruntime", "tokenizers", "duckdb", "lancedb", "qdrant_client"],
        ),
        ("deployments.stores.lance", ["onnxruntime", "tokenizers", "duckdb", "qdrant_client"]),
        ("deployments.stores.qdrant", ["onnxruntime", "tokenizers", "duckdb", "lancedb"]),
        ("deployments.scorer", ["duckdb", "lancedb", "fastapi"]),
        ("deployments.recorder", ["onnx", "onnxruntime", "tokenizers", "lancedb"]),
        ("deployments.inference.cross_encoder", ["ray", "fastapi", "pydantic", "duckdb"]),
        (
            "deployments.providers.rerankers",
            ["ray", "fastapi", "duckdb", "lancedb", "onnx", "onnxruntime", "tokenizers"],
        ),
    ],
)
def test_a_module_imports_without_what_it_must_not_know(module: str, blocked: list[str]) -> None:
    result = imports(module, blocked)
    assert result.returncode == 0, result.stderr[-2000:]


def test_the_block_itself_works() -> None:
    assert "blocked: duckdb" in imports("tracker.store", ["duckdb"]).stderr


OWNERS = {
    "duckdb": {"tracker/database.py"},
    "lancedb": {
        f"deployments/stores/{name}.py"
        for name in ("lance", "lance_indexes", "lance_listing", "lance_search")
    },
    "onnxruntime": {"deployments/inference/sessions.py", "deployments/inference/conversion.py"},
    "onnx": {
        f"deployments/inference/{name}.py"
        for name in (
            "absorbing",
            "bert_graphs",
            "conversion",
            "cutting",
            "splade_graphs",
            "weights",
        )
    },
    "tokenizers": {"deployments/inference/tokens.py", "deployments/inference/words.py"},
    "huggingface_hub": {"deployments/inference/resolving.py"},
    "semantic_text_splitter": {"deployments/chunking.py"},
    "httpx": {"deployments/cli/client.py", "deployments/providers/http.py"},
    "platformdirs": {"deployments/folders.py"},
    "ruamel": {"deployments/cli/settings_file.py", "deployments/cli/markdown.py"},
    "bs4": {"deployments/cli/web_pages.py"},
    "markdownify": {"deployments/cli/web_pages.py"},
    "grpc": {"deployments/handles.py", "deployments/stores/qdrant_collection.py"},
    "qdrant_client": {
        f"deployments/stores/{name}.py"
        for name in ("qdrant", "qdrant_collection", "qdrant_filters", "qdrant_points")
    },
    "Stemmer": {"deployments/stores/english.py"},
    "pyarrow": {
        "deployments/cli/parquet.py",
        "deployments/cli/reports.py",
        *(f"deployments/stores/{name}.py" for name in ("lance", "lance_errors", "lance_rows")),
    },
}


def importers(dependency: str) -> set[str]:
    """The files of the product that import a dependency, wherever in the file."""
    found = set()
    for package in ("pipeline", "tracker", "deployments"):
        for file in (ROOT / package).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(file.read_text())))
            names = [
                alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
            ]
            names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
            if dependency in {name.split(".")[0] for name in names}:
                found.add(file.relative_to(ROOT).as_posix())
    return found


@pytest.mark.parametrize(("dependency", "owners"), OWNERS.items())
def test_a_dependency_is_imported_in_one_place(dependency: str, owners: set[str]) -> None:
    assert importers(dependency) == owners
