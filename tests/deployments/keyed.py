"""API keys for tests, and clients that hold them."""

from __future__ import annotations

from typing import Any

import httpx

from deployments.auth import digest_of
from deployments.config import ApiKeyArgs, AuthArgs, LimitsArgs
from deployments.gateway import Gateway
from deployments.ingress import create_api

# name, tenant, role
HOLDERS = [
    ("reader", "acme", "read"),
    ("writer", "acme", "write"),
    ("boss", "acme", "admin"),
    ("other", "other", "admin"),
]
KEYED = AuthArgs(
    api_keys=[
        ApiKeyArgs.model_validate(
            {"name": name, "sha256": digest_of(f"op_{name}"), "tenant": tenant, "role": role}
        )
        for name, tenant, role in HOLDERS
    ]
)


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer op_{name}"}


def keyed_client(
    gateway: Gateway, headers: dict[str, str], auth: AuthArgs = KEYED, **options: Any
) -> httpx.AsyncClient:
    """A client on this machine that sends these headers."""
    app = create_api(gateway, LimitsArgs(), auth, **options)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
