"""`brokerage subscriptions` as its users run it."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from elasticsearch import AsyncElasticsearch

from tests.brokerage.conftest import invoke
from tests.conftest import remove_indices

Run = Callable[..., "CompletedProcess[str]"]
_URL = "https://crm.example/hook"


@pytest.fixture
async def run(client: AsyncElasticsearch, prefix: str, on_engine: dict[str, str]) -> Run:
    """Run `brokerage subscriptions ARGUMENTS` in an installation without any."""
    await remove_indices(client, prefix)
    return lambda *arguments, **settings: invoke("subscriptions", *arguments, environment={**on_engine, **settings})


@pytest.fixture
def key_id(on_engine: dict[str, str]) -> str:
    made = invoke("keys", "create", "crm", "--all-companies", "--json", environment=on_engine)
    found: str = json.loads(made.stdout)["key_id"]
    return found


def test_a_subscription_is_created_listed_and_deleted(run: Run, key_id: str) -> None:
    assert run("list").stderr.startswith("There are no subscriptions yet")
    made = run("create", "crm", "--key", key_id, "--url", _URL, "--resource", "listings", "--json")
    assert made.returncode == 0, made.stderr
    secret = json.loads(made.stdout)["secret"]
    assert secret.startswith("whsec_")
    listed = run("list", "--json")
    (row,) = json.loads(listed.stdout)
    assert (row["name"], row["key_id"], row["url"], row["state"]) == ("crm", key_id, _URL, "active")
    assert (row["resources"], row["number"], row["delivered"]) == (["listings"], 0, 0)
    assert "No process of `brokerage deliver` gives a sign" in listed.stderr
    # Shown once.
    assert secret not in listed.stdout + run("list").stdout
    for command, state in (("pause", "paused"), ("resume", "active")):
        assert run(command, "crm").returncode == 0
        assert json.loads(run("list", "--json").stdout)[0]["state"] == state
    assert run("replay", "crm", "--from", "start").stdout == "crm begins again from start\n"
    assert run("delete", "crm").returncode == 0
    assert json.loads(run("list", "--json").stdout or "[]") == []


def test_a_public_key_is_printed_instead_of_a_secret(run: Run, key_id: str) -> None:
    made = run("create", "crm", "--key", key_id, "--url", _URL, "--signature", "ed25519", "--json")
    assert json.loads(made.stdout)["public_key"].startswith("whpk_")


@pytest.mark.parametrize(("signature", "member"), [("hmac", "secret"), ("ed25519", "public_key")])
def test_a_secret_is_replaced(run: Run, key_id: str, signature: str, member: str) -> None:
    made = run("create", "crm", "--key", key_id, "--url", _URL, "--signature", signature, "--json")
    rotated = run("rotate", "crm", "--overlap", "1h", "--json")
    assert json.loads(rotated.stdout)[member] != json.loads(made.stdout)[member]
    assert "whs" not in run("list", "--json").stdout
    text = run("rotate", "crm", "--overlap", "0").stdout
    assert "The one before stops signing immediately." in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "crm", "--url", _URL), 2, "--key"),
        (("create", "c r m", "--key", "{key}", "--url", _URL), 2, "letters, digits"),
        (("create", "crm", "--key", "abcdefghij", "--url", _URL), 1, "There is no key 'abcdefghij'"),
        (("create", "crm", "--key", "{key}", "--url", "http://crm.example/hook"), 2, "use https"),
        (("create", "crm", "--key", "{key}", "--url", "https://10.0.0.1/hook"), 2, "BROKERAGE_DELIVER_ALLOW_PRIVATE"),
        (("create", "crm", "--key", "{key}", "--url", _URL, "--resource", "houses"), 2, "houses"),
        (("create", "crm", "--key", "{key}", "--url", _URL, "--from", "yesterday"), 2, "neither now nor start"),
        (("create", "crm", "--key", "{key}", "--url", _URL, "--from", "7"), 2, "a token of /changes"),
        (("create", "crm", "--key", "{key}", "--url", _URL, "--body", "events", "--resource", "listings"), 2, "--body"),
        (("create", "crm", "--key", "{key}", "--url", _URL, "--changed", "colour"), 2, "--changed"),
        (("pause", "crm"), 1, "There is no subscription 'crm'. `brokerage subscriptions list`"),
        (("delete", "portel"), 1, "Did you mean portal?"),
        (("replay", "portal"), 2, "--from"),
        (("create", "portal", "--key", "{key}", "--url", _URL), 1, "There is a subscription 'portal' already"),
    ],
)
def test_what_cannot_be_done_says_why(run: Run, key_id: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    assert run("create", "portal", "--key", key_id, "--url", _URL).returncode == 0
    ended = run(*(argument.replace("{key}", key_id) for argument in arguments))
    assert (ended.returncode, said in " ".join(ended.stderr.replace("│", " ").split())) == (code, True), ended.stderr


def test_a_key_that_is_revoked_gets_no_subscription(run: Run, key_id: str, on_engine: dict[str, str]) -> None:
    invoke("keys", "revoke", key_id, environment=on_engine)
    ended = run("create", "crm", "--key", key_id, "--url", _URL)
    assert (ended.returncode, "is revoked" in ended.stderr) == (1, True)
