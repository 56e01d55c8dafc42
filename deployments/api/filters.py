"""How a filter looks in a request, for the OpenAPI document; `pipeline.filters` reads them."""

from __future__ import annotations

from typing import Any

from pipeline.filters import GROUPS, MAX_FIELD_CHARS, MAX_VALUES

INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
ORDERED = {"anyOf": [{"type": "string"}, INT64, {"type": "number", "not": {"type": "integer"}}]}
SCALAR = {"anyOf": [{"type": "boolean"}, *ORDERED["anyOf"]]}
ITSELF = {"$ref": "#/components/schemas/Filter"}
OPERANDS: dict[str, Any] = {
    "eq": SCALAR,
    "ne": SCALAR,
    "in": {"type": "array", "items": SCALAR, "minItems": 1, "maxItems": MAX_VALUES},
    "gt": ORDERED,
    "gte": ORDERED,
    "lt": ORDERED,
    "lte": ORDERED,
    "exists": {"type": "boolean"},
}
FIELD = {"type": "string", "maxLength": MAX_FIELD_CHARS, "pattern": r"^[^.]+(\.[^.]+)*$"}


def only(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **more,
    }


def group(head: str) -> dict[str, Any]:
    many = {"type": "array", "items": ITSELF, "minItems": 1}
    return only({head: ITSELF if head == "not" else many}, required=[head])


FILTER = {
    "description": "a field compared, or filters joined by all, any or not",
    "anyOf": [
        only({"field": FIELD, **OPERANDS}, required=["field"], minProperties=2),
        *(group(head) for head in GROUPS),
    ],
}
# Where filters stand: the schema and its field.
PLACES = (("SearchRequest", "filter"), ("Boost", "when"))


def describe_filters(schemas: dict[str, Any]) -> None:
    """Say what a filter is, wherever one stands."""
    schemas["Filter"] = FILTER
    for schema, field in PLACES:
        schemas[schema]["properties"][field]["anyOf"] = [ITSELF, {"type": "null"}]
