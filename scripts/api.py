"""Generate docs/api.md from the OpenAPI document, or check that it is up to date."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from deployments.config import AuthArgs, LimitsArgs
from deployments.ingress import create_api
from deployments.openapi import REASONS, operations
from deployments.search_options import SearchOptions
from deployments.serve_gateway import ServeGateway

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
WIDTH = 96
Json = dict[str, Any]

HEAD = """# HTTP API

Generated from the OpenAPI document by `python scripts/api.py`; do not edit by hand. The running
application serves that document at `/openapi.json`, for generators of clients, and a page to try
it at `/docs`. That page loads its scripts from a public network (a CDN): without internet it stays
blank, and this page is the one to read.

- Bodies are JSON and say so (`Content-Type: application/json`), or lines of it where that is
  stated. Types are strict: `"3"` and `true` are no number. Our own routes refuse unknown fields,
  those of other services' dialects ignore them ([dialects.md](dialects.md)).
- Where API keys are configured, add `-H "Authorization: Bearer $KEY"` or `-H "X-API-Key: $KEY"`.
  The role beside a route is what the key needs; write may do what read may, admin everything
  ([security.md](security.md)).
- Every answer has `X-Request-Id`, the request's own or a new one, and `Server-Timing` with the
  time of each stage.
- `X-Request-Timeout-Ms` gives a search, a ranking or an embedding less time than
  `limits.deadline_ms`.
- Numbers below `limits.` are options: [configuration.md](configuration.md).

## Errors
| status | says |
|---|---|
{reasons}
Serve's own proxy answers 429 too, before our routes are reached, when too many requests wait; with
`Retry-After`, in plain text. 500 is a fault of ours, without details; the log has them. The body is
that of the route's dialect, here for one and the same error:

| shape | body |
|---|---|
{shapes}"""


def main() -> None:
    page = page_of(create_api(ServeGateway({}), LimitsArgs(), AuthArgs()).openapi())
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/api.md is out of date: run python scripts/api.py")


def page_of(document: Json) -> str:
    reasons = "".join(f"| {status} | {reason} |\n" for status, reason in REASONS.items())
    head = HEAD.format(reasons=reasons, shapes="".join(shapes(document)))
    writer = Writer(document)
    by_tag = groupby(operations(document), key=lambda one: one[2]["tags"][0])
    sections = (
        f"\n## {tag.capitalize()}\n" + "\n".join(writer.route(*one) for one in routes)
        for tag, routes in by_tag
    )
    return head + "".join(sections)


def shapes(document: Json) -> Iterator[str]:
    """One row for each shape of an error."""
    for name, response in document["components"]["responses"].items():
        if name.endswith("429"):
            example = response["content"]["application/json"]["example"]
            yield f"| {name.removesuffix('429')} | `{json.dumps(example)}` |\n"


class Writer:
    """Writes routes; what was described at one is not described again, but named."""

    def __init__(self, document: Json) -> None:
        self.schemas: Mapping[str, Json] = document["components"]["schemas"]
        self.described: dict[str, str] = {}

    def route(self, path: str, method: str, operation: Json) -> str:
        title = f"{method.upper()} {path}"
        role = operation.get("x-role")
        return "\n".join(
            [
                f"### `{title}`",
                f"*{operation['summary']}; {f'role {role}' if role else 'no key needed'}.*",
                "",
                operation["description"],
                *self.parameters(operation),
                *self.body(title, operation),
                *self.answer(title, operation),
                "",
                *curl(title, operation),
                *example(operation),
                errors(operation),
                "",
            ]
        )

    def parameters(self, operation: Json) -> Iterator[str]:
        rows = [one for one in operation["parameters"] if one.get("in") in ("path", "query")]
        if rows:
            yield from ("", "| parameter | type | default | |", "|---|---|---|---|")
        for one in rows:
            schema = one["schema"]
            default = "required" if one["required"] else shown_default(schema)
            about = one.get("description", "in the path")
            yield f"| `{one['name']}` | {self.type_of(schema)} | {default} | {about} |"

    def body(self, title: str, operation: Json) -> Iterator[str]:
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            each = "Body" if kind == "application/json" else "Each line of the body"
            for schema in alternatives(content["schema"]):
                yield from self.schema(title, f"{each} ", schema, with_default=True)

    def answer(self, title: str, operation: Json) -> Iterator[str]:
        for kind, content in operation["responses"]["200"]["content"].items():
            each = "Answer" if kind == "application/json" else "Each line of the answer"
            for schema in alternatives(content["schema"]):
                yield from self.schema(title, f"{each} ", schema, with_default=False)

    def schema(self, title: str, what: str, schema: Json, with_default: bool) -> Iterator[str]:
        name = name_of(schema)
        first = self.described.setdefault(name, title)
        if first != title:
            yield from ("", f"{what}`{name}`: as of [`{first}`](#{anchor(first)}).")
            return
        about = self.schemas[name].get("description", "")
        yield from ("", f"{what}`{name}`{f': {about}' if about else ''}", "")
        default = " default |" if with_default else ""
        yield f"| field | type |{default} |"
        yield f"|---|---|{'---|' if with_default else ''}---|"
        yield from self.rows(self.schemas[name], "", with_default)

    def rows(self, schema: Json, prefix: str, with_default: bool) -> Iterator[str]:
        """One row a field, those of its objects behind it; options are configuration.md's."""
        if schema.get("type") == "array":
            yield from self.rows(self.resolved(schema["items"]), f"{prefix}[].", with_default)
            return
        # The first of several names stands for all of them.
        required = [*schema.get("required", ())]
        required += [one["anyOf"][0]["required"][0] for one in schema.get("allOf", ())]
        fields = schema["properties"]
        for name in (
            sorted(fields, key=lambda name: name not in required) if with_default else fields
        ):
            path, field = f"{prefix}{name}", fields[name]
            default = "required" if name in required else shown_default(field)
            cells = [f"`{path}`", self.type_of(field), *([default] if with_default else [])]
            yield f"| {' | '.join(cells)} | {field.get('description', '')} |"
            if with_default and name in SearchOptions.model_fields:
                continue
            for inner, dots in self.inner(field):
                yield from self.rows(inner, f"{path}{dots}.", with_default)

    def inner(self, field: Json) -> Iterator[tuple[Json, str]]:
        """The objects that a field holds, and how their fields are reached."""
        for one in (field, *field.get("anyOf", ())):
            if "items" in one:
                yield from ((inner, f"[]{dots}") for inner, dots in self.inner(one["items"]))
            elif "$ref" in one and "properties" in self.resolved(one):
                yield self.resolved(one), ""

    def resolved(self, schema: Json) -> Json:
        return self.schemas[name_of(schema)] if "$ref" in schema else schema

    def type_of(self, schema: Json) -> str:
        """A type in words, with its bounds."""
        if "anyOf" in schema or "oneOf" in schema:
            kinds = [self.type_of(one) for one in schema.get("anyOf") or schema["oneOf"]]
            return " or ".join(dict.fromkeys(kinds))
        if "$ref" in schema:
            return self.kind_of(name_of(schema))
        if "const" in schema or "enum" in schema:
            values = schema.get("enum") or [schema["const"]]
            words = (one if isinstance(one, str) else json.dumps(one) for one in values)
            return ", ".join(f"`{word}`" for word in words)
        if schema.get("type") == "array":
            return f"list of {self.type_of(schema['items'])}{sizes(schema, 'Items')}"
        kind = {"date-time": "time"}.get(schema.get("format", ""), schema.get("type", "any"))
        return f"{kind}{sizes(schema, 'Length')}{bounds(schema)}"

    def kind_of(self, name: str) -> str:
        schema = self.schemas[name]
        if name == "Filter":
            return "[filter](pipeline.md#filters)"
        is_options = schema.get("additionalProperties") is False and "required" not in schema
        return "[options](configuration.md)" if is_options else "object"


def alternatives(schema: Json) -> list[Json]:
    several: list[Json] = schema.get("anyOf", [schema])
    return several


def name_of(schema: Json) -> str:
    name: str = schema["$ref"].rpartition("/")[2]
    return name


def shown_default(schema: Json) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def sizes(schema: Json, what: str) -> str:
    low, high = schema.get(f"min{what}"), schema.get(f"max{what}")
    unit = " characters" if what == "Length" else ""
    if high is not None:
        return f", at most {high}{unit}"
    return f", at least {low}{unit}" if low else ""


def bounds(schema: Json) -> str:
    """The range of a number."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g}, up to {high:g}"
    if high is not None:
        return f" {low:g} to {high:g}"
    return "" if low is None else f" from {low:g}"


def anchor(title: str) -> str:
    """The id that GitHub gives a heading."""
    kept = (c for c in title.lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")


def curl(title: str, operation: Json) -> Iterator[str]:
    method, path = title.split(" ")
    for parameter in operation["parameters"]:
        if "example" in parameter:
            path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    verb = "" if method in ("GET", "POST") else f"-X {method} "
    yield "```sh"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"curl {verb}localhost:8000{path} -H 'Content-Type: {kind}' \\"
        yield f"  -d '{json.dumps(content['example'])}'"
    if "requestBody" not in operation:
        yield f"curl {verb}localhost:8000{path}"
    yield "```"


def example(operation: Json) -> list[str]:
    (content,) = operation["responses"]["200"]["content"].values()
    return ["```json", broken(content["example"]), "```"]


def broken(value: Any, indent: int = 0) -> str:
    """Write JSON, broken where a line would grow too long."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, list | dict):
        return line
    deeper = indent + 2
    if isinstance(value, list):
        parts, ends = [broken(one, deeper) for one in value], "[]"
    else:
        parts = [f"{json.dumps(key)}: {broken(one, deeper)}" for key, one in value.items()]
        ends = "{}"
    inside = ",\n".join(" " * deeper + one for one in filled(parts, WIDTH - deeper))
    return f"{ends[0]}\n{inside}\n{' ' * indent}{ends[1]}"


def filled(parts: list[str], width: int) -> list[str]:
    """Put parts that are short on a line together."""
    lines: list[str] = []
    for part in parts:
        last = lines[-1] if lines else None
        if last and "\n" not in last + part and len(last) + 2 + len(part) <= width:
            lines[-1] = f"{last}, {part}"
        else:
            lines.append(part)
    return lines


def errors(operation: Json) -> str:
    """The statuses of a route's failures, and the shape of their bodies."""
    failures = [one for one in operation["responses"].items() if "$ref" in one[1]]
    shape = name_of(failures[0][1])[:-3]
    return f"Errors: {', '.join(status for status, _ in failures)}, as `{shape}`."


if __name__ == "__main__":
    main()
