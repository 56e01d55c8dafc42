"""Runs blocks of code in the Python that starts it, one a line of JSON, and says how each ended.

It knows the standard library only: the clients that it runs bring what they need themselves.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HERE = frozenset({"127.0.0.1", "localhost", "::1"})


class Door:
    """Lets sockets reach this machine alone, and remembers where else they wanted to go."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        sys.addaudithook(self._watch)

    def _watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo":
            self._check(arguments[0])
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            self._check(arguments[1][0])

    def _check(self, host: str | bytes | None) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and name not in HERE:
            self.refused.append(name)
            raise OSError(f"{name} is not this machine")


def main() -> None:
    door, answers = Door(), sys.stdout
    sys.stdout = sys.stderr  # for what clients print
    for line in sys.stdin:
        door.refused.clear()
        outcome = {**run(**json.loads(line)), "refused": door.refused}
        print(json.dumps(outcome), file=answers, flush=True)


def run(setup: str, names: dict[str, Any], block: str, wanted: list[str]) -> dict[str, Any]:
    """Run the block with `names` in place of those that `setup` gave; return the `wanted` names
    that it leaves, or its error by class and message."""
    space: dict[str, Any] = {}
    exec(setup, space)
    space.update(names)
    try:
        exec(block, space)
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        kind = type(error).__name__
        return {
            "left": {},
            "error": kind if package == "builtins" else f"{package}.{kind}",
            "message": str(error),
        }
    left = {name: space[name] for name in wanted if name in space}
    return {"left": left, "error": None, "message": ""}


if __name__ == "__main__":
    main()
