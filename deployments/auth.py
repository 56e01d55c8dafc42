"""Who asks: the tenant and the role that a request acts for."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from deployments.config import ApiKeyArgs, AuthArgs, Role
from deployments.loopback import is_loopback, names_loopback
from pipeline.errors import Unauthorized

ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may

# Served to everybody: a cluster's probes have no key, and come from no loopback address.
PROBES = frozenset({"/healthz", "/readyz"})
# Served without a key where keys are configured: the API is no secret.
OPEN_PATHS = PROBES | {"/docs", "/openapi.json"}

# What a proxy adds to the requests that it passes on.
PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-real-ip")

UNSEEN = (
    "behind HAProxy it cannot be told which clients are on this machine: configure auth.api_keys, "
    "or set auth.allow_anonymous"
)
ELSEWHERE = (
    "only clients on this machine are served, and not through a proxy: configure auth.api_keys, "
    "or set auth.allow_anonymous"
)

OTHER_HOST = (
    "without API keys only requests to localhost are served, not to another host name: configure "
    "auth.api_keys, or set auth.allow_anonymous"
)


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose corpora, retrievals and reports a request sees, and what it may do with them."""

    tenant: str
    role: Role

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


# Without API keys there is one tenant, and who is served may do everything.
ANONYMOUS = Principal("default", "admin")


def identify(
    auth: AuthArgs, headers: Mapping[str, str], client: str | None, sees_clients: bool
) -> Principal:
    """Return for whom a request from the address `client` acts; header names are lower case.

    `sees_clients` false says that the address is a proxy's whoever asks, and proves nothing.
    Raises Unauthorized, whose message says what is missing and never what was sent.
    """
    if auth.api_keys:
        return holder_of(sent_key(headers), auth.api_keys)
    if auth.allow_anonymous:
        return ANONYMOUS
    if not sees_clients:
        raise Unauthorized(UNSEEN)
    if client is None or not is_loopback(client) or any(name in headers for name in PROXY_HEADERS):
        raise Unauthorized(ELSEWHERE)
    # A browser that was led here by a name of somebody else's, which resolves to this machine,
    # would take our answers for that site's.
    if not names_loopback(headers.get("host", "localhost")):
        raise Unauthorized(OTHER_HOST)
    return ANONYMOUS


def holder_of(key: str, known: Sequence[ApiKeyArgs]) -> Principal:
    """Return whose key it is. All are compared, each in constant time, so that the time an answer
    takes says nothing of the keys. Raises Unauthorized."""
    digest = digest_of(key)
    holder: Principal | None = None
    for one in known:
        if hmac.compare_digest(digest, one.sha256) and key:
            holder = Principal(one.tenant, one.role)
    if holder is None:
        raise Unauthorized("an API key is needed: Authorization: Bearer KEY, or X-API-Key: KEY")
    return holder


def sent_key(headers: Mapping[str, str]) -> str:
    """Return the key of `Authorization: Bearer`, else of `X-API-Key`, else ""."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("x-api-key", "")


def new_key() -> str:
    """Make a key of 256 random bits, safe in URLs and headers."""
    return f"op_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """Return the SHA-256 in hexadecimal digits that the configuration holds.

    One plain hash suffices: slow, salted ones protect passwords, which can be guessed, and
    nobody guesses 256 random bits.
    """
    return hashlib.sha256(key.encode()).hexdigest()
