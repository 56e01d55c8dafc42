"""What routes ask of a request: the gateway, limits, its time, its tenant."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request

from deployments.auth import Principal
from deployments.config import LimitsArgs, Role
from deployments.gateway import Gateway
from deployments.options import CORPUS
from pipeline.errors import Forbidden

# These are asynchronous though they wait for nothing: FastAPI runs others in threads.


async def gateway_of(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


async def limits_of(request: Request) -> LimitsArgs:
    limits: LimitsArgs = request.app.state.limits
    return limits


async def principal_of(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def tenant_of(principal: Annotated[Principal, Depends(principal_of)]) -> str:
    return principal.tenant


def needs(role: Role) -> Any:
    """Return a dependency for a route that serves holders of this role alone; without one a route
    serves every role."""

    async def check(principal: Annotated[Principal, Depends(principal_of)]) -> None:
        if not principal.may(role):
            raise Forbidden(f"this needs an API key with the role {role}")

    return Depends(check)


async def remaining_ms(
    limits: Annotated[LimitsArgs, Depends(limits_of)],
    x_request_timeout_ms: Annotated[
        int | None, Header(ge=1, description="time for this request, in ms")
    ] = None,
) -> float:
    """The request's time: what it asks for, at most the configured deadline."""
    return min(x_request_timeout_ms or limits.deadline_ms, limits.deadline_ms)


Gate = Annotated[Gateway, Depends(gateway_of)]
Limits = Annotated[LimitsArgs, Depends(limits_of)]
Tenant = Annotated[str, Depends(tenant_of)]
Remaining = Annotated[float, Depends(remaining_ms)]
WRITER = needs("write")
ADMIN = needs("admin")
CorpusPath = Annotated[
    str, Path(pattern=CORPUS, description="letters, digits, `_`, `.`, `-`; at most 64")
]
