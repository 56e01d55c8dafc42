"""What routes ask of a request: the gateway, limits, its time, its tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Request

from deployments.auth import Principal
from deployments.config import LimitsArgs
from deployments.gateway import Gateway
from deployments.options import CORPUS

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
CorpusPath = Annotated[str, Path(pattern=CORPUS)]
