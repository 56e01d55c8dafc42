from __future__ import annotations

from pathlib import Path

import pytest

from deployments.cli.judgements import JudgedQuery, read_judged
from deployments.cli.pieces import UnreadableFile

QUERIES = (
    '{"_id": "1", "text": "one"}\n\n{"id": "2", "text": "two\\u2028"}\n{"_id": "3", "text": "x"}\n'
)
QRELS = "query-id\tcorpus-id\tscore\n2\tb\t0\n1\ta\t1\n2\tc d\t2\r\n9\ta\t1\n"


def read(folder: Path, queries: str, qrels: str, limit: int | None = None) -> list[JudgedQuery]:
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels.tsv").write_text(qrels)
    return read_judged(folder / "queries.jsonl", folder / "qrels.tsv", limit)


def test_judged_queries_come_in_the_order_of_their_file_with_their_grades(tmp_path: Path) -> None:
    assert read(tmp_path, QUERIES, QRELS) == [
        JudgedQuery("1", "one", {"a": 1.0}),
        JudgedQuery("2", "two\u2028", {"b": 0.0, "c d": 2.0}),
    ]


def test_a_limit_counts_judged_queries(tmp_path: Path) -> None:
    (query,) = read(tmp_path, QUERIES, "2\tb\t1\n", limit=1)
    assert query.id == "2"


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        ("{", QRELS, r"queries\.jsonl, line 1: needs JSON with _id and text"),
        ("[1]", QRELS, r"queries\.jsonl, line 1: needs JSON with _id and text"),
        ('{"_id": 1, "text": "x"}', QRELS, "line 1: _id and text must be filled strings"),
        ('{"_id": "1", "text": " "}', QRELS, "line 1: _id and text must be filled strings"),
        (QUERIES, "1\ta\t1\n1\ta\n", r"qrels\.tsv, line 2: needs query id, document id and grade"),
        (QUERIES, "1\ta\t1\n1\tb\tnan\n", r"qrels\.tsv, line 2: needs query id"),
        (QUERIES, "1 0 a 1\n", r"qrels\.tsv, line 1: needs query id"),
        (QUERIES, "7\ta\t1\n", "none of the queries in .* is judged"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, queries: str, qrels: str, message: str
) -> None:
    with pytest.raises(UnreadableFile, match=message):
        read(tmp_path, queries, qrels)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"qrels\.tsv: No such file"):
        read_judged(tmp_path / "queries.jsonl", tmp_path / "qrels.tsv")
