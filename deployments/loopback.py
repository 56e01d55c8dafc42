"""Whether a host is this very machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without a port, is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names_loopback(authority: str) -> bool:
    """Whether what follows a URL's slashes, or stands in a Host header, names this machine."""
    try:
        return is_loopback(urlsplit(f"//{authority}").hostname or "")
    except ValueError:  # brackets that do not pair
        return False
