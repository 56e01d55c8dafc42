from __future__ import annotations

import hashlib

import pytest
import yaml
from typer.testing import CliRunner, Result

from deployments.cli.client import Client, ClientError
from deployments.cli.main import app
from deployments.config import AppArgs
from tests.deployments.cli.server import Handler, SmallServer


def new_key(*options: str) -> Result:
    return CliRunner().invoke(app, ["keys", "new", *options])


def shown(result: Result) -> tuple[str, str]:
    """The key, and the entry for the configuration."""
    assert result.exit_code == 0, result.output
    key, rest = result.stdout.split("\n", 1)
    return key, rest[rest.index("auth:") :]


def test_a_new_key_comes_with_the_entry_that_lets_it_in() -> None:
    key, entry = shown(new_key("--tenant", "acme", "--role", "write", "--name", "crawler"))
    assert key.startswith("op_")
    assert len(key) == 3 + 43  # 32 bytes in base64, without padding
    assert yaml.safe_load(entry) == {
        "auth": {
            "api_keys": [
                {
                    "name": "crawler",
                    "sha256": hashlib.sha256(key.encode()).hexdigest(),
                    "tenant": "acme",
                    "role": "write",
                }
            ]
        }
    }


def test_the_entry_does_not_hold_the_key() -> None:
    key, entry = shown(new_key("--tenant", "acme", "--role", "read"))
    assert key not in entry


def test_no_two_keys_are_the_same() -> None:
    made = [shown(new_key("--tenant", "acme", "--role", "read")) for _ in range(3)]
    assert len({key for key, _ in made}) == 3
    assert len({yaml.safe_load(entry)["auth"]["api_keys"][0]["name"] for _, entry in made}) == 3


@pytest.mark.parametrize("tenant", ["12", "1e3", "true", "null", "0x1F", "a-b.c_d"])
def test_an_entry_is_a_valid_configuration_whatever_the_tenant_is_called(tenant: str) -> None:
    _, entry = shown(new_key("--tenant", tenant, "--role", "admin"))
    args = AppArgs.model_validate(yaml.safe_load(entry))
    assert args.auth.api_keys[0].tenant == tenant


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--tenant", "acme", "--role", "root"], "--role"),
        (["--tenant", "../acme", "--role", "read"], "--tenant"),
        (["--tenant", "a" * 65, "--role", "read"], "--tenant"),
        (["--tenant", "acme", "--role", "read", "--name", "a key"], "--name"),
    ],
)
def test_no_key_is_made_for_what_is_wrong(options: list[str], named: str) -> None:
    result = new_key(*options)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"{named}: ")


class KeyedHandler(Handler):
    def do_GET(self) -> None:
        self.server.requests.append(("key", self.headers.get("Authorization", ""), None))
        self.handle_any()


def sent_authorization() -> str:
    with SmallServer(lambda *_: (200, {"model": "m"})) as server:
        server.RequestHandlerClass = KeyedHandler
        with Client(server.url) as client:
            client.served_model()
    return server.requests[0][1]


def test_commands_send_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEPASS_API_KEY", raising=False)
    assert sent_authorization() == ""
    monkeypatch.setenv("ONEPASS_API_KEY", "op_abc\n")
    assert sent_authorization() == "Bearer op_abc"


@pytest.mark.parametrize("key", ["op_a\nb", "op_ä"])
def test_a_key_that_http_cannot_carry_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ONEPASS_API_KEY", key)
    with pytest.raises(ClientError) as caught:
        Client("http://127.0.0.1:1")
    assert str(caught.value) == "ONEPASS_API_KEY holds no API key"
