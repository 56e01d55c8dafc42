from __future__ import annotations

import hmac
from typing import Any

import pytest
from pydantic import ValidationError

from deployments.auth import ANONYMOUS, Principal, digest_of, holder_of, identify, new_key, sent_key
from deployments.config import ApiKeyArgs, AppArgs, AuthArgs
from deployments.options import ConfigError
from pipeline.errors import Unauthorized
from tests.deployments.keyed import KEYED

A_DIGEST = digest_of("op_a")


def entry(**changes: Any) -> dict[str, Any]:
    return {"name": "n", "sha256": A_DIGEST, "tenant": "t", "role": "read", **changes}


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({"authorization": "Bearer op_a"}, "op_a"),
        ({"authorization": "bearer  op_a "}, "op_a"),
        ({"x-api-key": "op_a"}, "op_a"),
        ({"authorization": "Basic dXNlcg==", "x-api-key": "op_a"}, "op_a"),
        ({"authorization": "Bearer op_a", "x-api-key": "op_b"}, "op_a"),
        ({"authorization": "Bearer ", "x-api-key": "op_b"}, "op_b"),
        ({"authorization": "Bearerop_a"}, ""),
        ({"authorization": "op_a"}, ""),
    ],
)
def test_a_key_is_taken_from_either_header(headers: dict[str, str], key: str) -> None:
    assert sent_key(headers) == key


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("reader", Principal("acme", "read")),
        ("writer", Principal("acme", "write")),
        ("other", Principal("other", "admin")),
    ],
)
def test_a_key_stands_for_its_tenant_and_role(name: str, holder: Principal) -> None:
    assert holder_of(f"op_{name}", KEYED.api_keys) == holder


@pytest.mark.parametrize(
    "key", ["", "op_", "op_reade", "op_reader ", "OP_READER", digest_of("op_reader"), "\xe4" * 9]
)
def test_what_only_resembles_a_key_is_refused(key: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        holder_of(key, KEYED.api_keys)
    assert str(caught.value) == (
        "an API key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"
    )


@pytest.mark.parametrize("key", ["op_reader", "op_other", "wrong"])
def test_a_key_is_compared_with_every_known_one_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    compared: list[tuple[Any, Any]] = []
    compare_digest = hmac.compare_digest

    def watched(left: Any, right: Any) -> bool:
        compared.append((left, right))
        return compare_digest(left, right)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    try:
        holder_of(key, KEYED.api_keys)
    except Unauthorized:
        assert key == "wrong"
    assert compared == [(digest_of(key), one.sha256) for one in KEYED.api_keys]


def test_a_role_may_do_what_the_smaller_ones_may() -> None:
    allowed = {
        role: [needed for needed in ("read", "write", "admin") if Principal("t", role).may(needed)]
        for role in ("read", "write", "admin")
    }
    assert allowed == {
        "read": ["read"],
        "write": ["read", "write"],
        "admin": ["read", "write", "admin"],
    }


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_without_keys_this_machine_is_served(client: str) -> None:
    assert identify(AuthArgs(), {}, client, sees_clients=True) == ANONYMOUS


@pytest.mark.parametrize(
    "client", ["10.0.0.7", "0.0.0.0", "::", "fe80::1%eth0", "", "localhost.evil.example", None]
)
def test_without_keys_no_other_machine_is_served(client: str | None) -> None:
    with pytest.raises(Unauthorized, match=r"auth\.allow_anonymous"):
        identify(AuthArgs(), {}, client, sees_clients=True)
    opened = AuthArgs(allow_anonymous=True)
    assert identify(opened, {}, client, sees_clients=True) == ANONYMOUS


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_without_keys_what_a_proxy_on_this_machine_passes_on_is_not_served(header: str) -> None:
    with pytest.raises(Unauthorized, match="not through a proxy"):
        identify(AuthArgs(), {header: "127.0.0.1"}, "127.0.0.1", sees_clients=True)


def test_where_every_address_is_the_proxys_nobody_is_served_without_keys() -> None:
    with pytest.raises(Unauthorized, match="behind HAProxy"):
        identify(AuthArgs(), {}, "127.0.0.1", sees_clients=False)
    opened = AuthArgs(allow_anonymous=True)
    assert identify(opened, {}, "127.0.0.1", sees_clients=False) == ANONYMOUS
    holder = identify(KEYED, {"x-api-key": "op_boss"}, "127.0.0.1", sees_clients=False)
    assert holder == Principal("acme", "admin")


def test_with_keys_this_machine_needs_one_too() -> None:
    with pytest.raises(Unauthorized):
        identify(KEYED, {}, "127.0.0.1", sees_clients=True)


def test_a_new_key_can_be_sent_and_is_never_made_twice() -> None:
    made = {new_key() for _ in range(100)}
    assert len(made) == 100
    assert all(sent_key({"authorization": f"Bearer {key}"}) == key for key in made)


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        (
            {"api_keys": [entry(), entry(sha256="b" * 64)]},
            "auth.api_keys: two keys have the same name",
        ),
        (
            {"api_keys": [entry(), entry(name="m")]},
            "auth.api_keys: two keys have the same sha256",
        ),
        (
            {"api_keys": [entry()], "allow_anonymous": True},
            "auth: allow_anonymous and api_keys exclude each other",
        ),
    ],
)
def test_keys_that_contradict_each_other_stop_the_start(auth: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AppArgs.model_validate({"auth": auth})
    assert str(caught.value) == f"configuration: {message}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "a key"),
        ("sha256", "op_a-real-key-put-here-by-mistake"),
        ("sha256", A_DIGEST.upper()),
        ("sha256", A_DIGEST + "\n"),
        ("sha256", A_DIGEST[1:]),
        ("tenant", "../other"),
        ("tenant", "a/b"),
        ("tenant", "a" * 65),
        ("tenant", "é"),
        ("role", "root"),
        ("role", "READ"),
        ("key", "op_a"),
    ],
)
def test_a_wrong_entry_stops_the_start_without_being_shown(field: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AppArgs.model_validate({"auth": {"api_keys": [entry(**{field: value})]}})
    message = str(caught.value)
    assert message.startswith(f"configuration: auth.api_keys[0].{field}: ")
    assert not value or value not in message


@pytest.mark.parametrize("field", ["name", "sha256", "tenant", "role"])
def test_an_entry_names_all_there_is_to_say(field: str) -> None:
    short = {name: value for name, value in entry().items() if name != field}
    with pytest.raises(ValidationError, match=f"api_keys.0.{field}"):
        AuthArgs.model_validate({"api_keys": [short]})


@pytest.mark.parametrize(
    ("host", "is_served"),
    [
        ("localhost:8000", True),
        ("127.0.0.1", True),
        ("[::1]:8000", True),
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("10.0.0.7:8000", False),
    ],
)
def test_without_keys_a_name_that_only_leads_to_this_machine_is_not_served(
    host: str, is_served: bool
) -> None:
    if is_served:
        assert identify(AuthArgs(), {"host": host}, "127.0.0.1", True) == ANONYMOUS
        return
    with pytest.raises(Unauthorized, match="another host name"):
        identify(AuthArgs(), {"host": host}, "127.0.0.1", True)


def test_no_key_is_never_a_key_whatever_digest_is_configured() -> None:
    unset = ApiKeyArgs(name="unset", sha256=digest_of(""), tenant="t", role="admin")
    for headers in ({}, {"authorization": "Bearer "}, {"x-api-key": ""}):
        with pytest.raises(Unauthorized):
            identify(AuthArgs(api_keys=[unset]), headers, "127.0.0.1", True)
