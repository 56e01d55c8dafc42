"""Who asks: the tenant and the role that a request acts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose corpora, retrievals and reports a request sees, and what it may do with them."""

    tenant: str
    role: Role


# Without API keys there is one tenant, and who is served may do everything.
ANONYMOUS = Principal("default", "admin")
