"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test judges by time: a busy machine is no failure.
settings.register_profile("onepass", deadline=None)
settings.load_profile("onepass")
