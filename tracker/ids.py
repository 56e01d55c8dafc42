"""Retrieval ids: UUIDv7, so that an id tells when it was made and ids sort by time."""

from __future__ import annotations

import secrets
import time
import uuid
from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
VERSION_7 = 0x7
RFC_VARIANT = 0b10


def new_retrieval_id() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7) as canonical text.

    The 48-bit field holds Unix milliseconds. The 12 bits after the version hold the fraction of
    the millisecond (section 6.2, method 3), so ids of one process sort by creation to a quarter
    of a microsecond, as long as the clock is not set back; the other 62 bits are random.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    value = milliseconds << 80
    value |= VERSION_7 << 76
    value |= (nanoseconds * 4096 // 1_000_000) << 64
    value |= RFC_VARIANT << 62
    value |= secrets.randbits(62)
    return str(uuid.UUID(int=value))


def created_at(retrieval_id: str) -> datetime | None:
    """Return when an id was made, in UTC to the millisecond; None if it is no canonical UUIDv7."""
    try:
        parsed = uuid.UUID(retrieval_id)
    except ValueError:
        return None
    if str(parsed) != retrieval_id or parsed.version != VERSION_7:
        return None
    try:
        return EPOCH + timedelta(milliseconds=parsed.int >> 80)
    except OverflowError:  # the field reaches the year 10889, a datetime only 9999
        return None
