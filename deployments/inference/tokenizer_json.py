"""What a tokenizer.json holds that depends on its use; needs no tokenizer library."""

from __future__ import annotations

import json


def without_limits(tokenizer: str) -> str:
    """Return a tokenizer.json without padding and truncation: both are set where it is used.

    ValueError if it does not hold JSON, TypeError if it does not hold an object.
    """
    content = {**json.loads(tokenizer), "padding": None, "truncation": None}
    return json.dumps(content, ensure_ascii=False)
