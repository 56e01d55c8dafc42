"""The options of a search as a request may give them: made from the options themselves."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

from deployments.api.wire import CONTAINERS, FirstFault, Wire, check_json, too_many
from deployments.options import Options

# No option and no node of a filter holds more.
MAX_ENTRIES = 1000


def few_entries(value: Any) -> Any:
    """Refuse an object or a list of very many before they are looked at."""
    if isinstance(value, CONTAINERS) and len(value) > MAX_ENTRIES:
        raise too_many("entries", MAX_ENTRIES)
    return value


FEW = BeforeValidator(few_entries)


class Override(Wire):
    """Options of which any may be left out.

    A null means null where an option has such a value, and leaves the default where it has none.
    Bounds are those of the options; what they demand together is checked when they are.
    """

    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, values: Any) -> Any:
        check_json(values)
        return values

    def given(self) -> dict[str, Any]:
        """Return what the client set."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return {
            name: plain(value)
            for name, value in values.items()
            if value is not None or name in self.nullable
        }


def plain(value: Any) -> Any:
    if isinstance(value, Override):
        return value.given()
    return [plain(each) for each in value] if isinstance(value, list) else value


def override_of(options: type[Options]) -> type[Override]:
    """Make the request's form of a class of options: the same fields, none of them required."""
    fields: dict[str, Any] = {}
    for name, field in options.model_fields.items():
        bounded = request_type(field.annotation)
        for bound in field.metadata:
            bounded = Annotated[bounded, bound]
        fields[name] = (bounded | None, Field(None, description=field.description))
    made = create_model(options.__name__.removesuffix("Args"), __base__=Override, **fields)
    made.__doc__ = options.__doc__
    made.nullable = frozenset(
        name
        for name, field in options.model_fields.items()
        if NoneType in get_args(field.annotation)
    )
    return made


def request_type(annotation: Any) -> Any:
    """Return an option's type with every class of options in it replaced by its override, and with
    few errors for whatever is sent."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return (
            switch(annotation) if "enabled" in annotation.model_fields else override_of(annotation)
        )
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(request_type(parts[0]), *parts[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(request_type(part) for part in parts)]  # noqa: UP007  # made of a tuple
    if origin is list:
        annotation = Annotated[list[request_type(parts[0])], FirstFault()]  # type: ignore[misc]
    return Annotated[annotation, FEW] if origin in (list, dict) else annotation


def switch(options: type[Options]) -> Any:
    """A bool, which only switches, or an object, which switches on and overrides."""
    override = override_of(options)
    return Annotated[
        Annotated[bool, Tag("~bool")] | Annotated[override, Tag("~object")],
        Discriminator(kind_of),
    ]


def kind_of(value: Any) -> str:
    return "~bool" if isinstance(value, bool) else "~object"
