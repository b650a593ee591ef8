"""What each part of the product asks of Elasticsearch, over TLS: recorded from real runs, without names and ids."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from brokerage.command import main
from mappings import COMPANY, RESOURCES, TEAM
from tests.brokerage.conftest import running
from tests.internals import internals_set
from tests.network.proxy import Proxy
from tests.network.threads import in_thread
from tests.records import envelope, write
from tests.service.index_sandbox import OPERATION_PATHS
from tests.tls import Authority
from tests.waiting import wait_until

_ALIASES = "|".join(resource.alias for resource in RESOURCES)
_HEAD = re.compile(r"(?P<method>[A-Z]+) (?P<path>/[^ ?]*)\S* HTTP/1\.1")


class CallRecorder:
    """Runs parts of the product on one installation and records their requests."""

    def __init__(self, proxy: Proxy, authority: Authority, prefix: str) -> None:
        self.proxy = proxy
        self.requests = 0
        self._prefix = prefix
        self.environment = {"ELASTICSEARCH_URL": proxy.url, "BROKERAGE_INDEX_PREFIX": prefix}
        self.by_file = {**self.environment, "BROKERAGE_ELASTICSEARCH_CA_CERTS": authority.path}
        self.by_fingerprint = {**self.environment, "BROKERAGE_ELASTICSEARCH_FINGERPRINT": authority.fingerprint}

    def command(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Run a command within this process, certificates checked by a file, and return its output."""
        ours: dict[str, str | None] = {
            name: None for name in os.environ if name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))
        }
        ended = CliRunner().invoke(main, list(arguments), env=ours | self.by_file | environment)
        assert ended.exit_code == code, ended.output
        return ended.stdout

    def calls(self) -> set[str]:
        """Return what was asked since the last time, as `GET /{alias}/_doc/{id}`."""
        heads, self.proxy.heads = self.proxy.heads, []
        self.requests += len(heads)
        return {self._shape(head) for head in heads}

    def _shape(self, head: str) -> str:
        matched = _HEAD.fullmatch(head)
        assert matched, head
        parts = matched["path"].strip("/").split("/")
        parts = [",".join(sorted({self._kind(name) for name in part.split(",")})) for part in parts]
        if len(parts) == 3 and parts[1] in {"_doc", "_update"}:
            parts[2] = "{id}"
        if len(parts) == 2 and parts[0] == "_tasks":
            parts[1] = "{task}"
        return f"{matched['method']} /{'/'.join(parts)}"

    def _kind(self, name: str) -> str:
        own = name.replace("%2C", ",").removeprefix(self._prefix)
        if re.fullmatch(rf"(?:{_ALIASES})-(?:v|builder|writer|update)\S*", own):
            return "{generation}"
        if re.fullmatch(rf"(?:{_ALIASES})-served-v\d+", own):
            return "{served}"
        return "{alias}" if re.fullmatch(_ALIASES, own) else own


@contextmanager
def record_calls(engine_url: str, prefix: str, folder: Path) -> Iterator[CallRecorder]:
    """Talk to the engine over TLS."""
    authority = Authority(folder)
    certificate = authority.server(authority.ca.issue_cert("localhost"))
    with in_thread(Proxy(engine_url, certificate=certificate).running()) as proxy:
        yield CallRecorder(proxy, authority, prefix)


def run_indexer(talk: CallRecorder, folder: Path) -> set[str]:
    """Use every command of the indexer, deletions included; return what was asked."""
    full, less = folder / "full", folder / "less"
    write(full, {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(3)]})
    write(less, {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, {"uuid": "t0"})]})
    built = ("companies", "teams")
    talk.command("index", "reindex", str(full), *built, BROKERAGE_SHARDS="3")
    talk.command("index", "update", str(less))
    talk.command("index", "reindex", str(less), *built, "--force")
    talk.command("index", "verify", str(less), *built)
    talk.command("index", "status")
    with internals_set(most_segments=0, compaction_most_load=100):  # every index is fragmented
        talk.command("index", "compact")
    talk.command("index", "rollback", "teams", "--yes")
    talk.command("index", "restored", "--yes")
    talk.command("index", "prune", "--yes")
    return talk.calls()


def run_key_commands(talk: CallRecorder) -> tuple[str, set[str]]:
    """Use every command of keys; return a key that can be used, and what was asked."""
    made, other = (json.loads(talk.command("keys", "create", "n", "--all-companies", "--json")) for _ in range(2))
    talk.command("keys", "list")
    talk.command("keys", "revoke", other["key_id"])
    return made["key"], talk.calls()


def run_audit_commands(talk: CallRecorder, code: int = 0) -> set[str]:
    """Use every command of the audit; return what was asked."""
    talk.command("audit", "create")
    talk.command("audit", "prune", BROKERAGE_AUDIT_DAYS="1")
    talk.command("audit", "who", "acme", "--resource", "companies", code=code)
    return talk.calls()


def run_subscription_commands(talk: CallRecorder, key: str, url: str) -> set[str]:
    """Use every command of subscriptions, and leave one; return what was asked."""
    chosen = ("--key", key[3:13], "--url", url, "--from")
    talk.command("subscriptions", "create", "kept", *chosen, "start", BROKERAGE_DELIVER_ALLOW_PRIVATE="true")
    for body in ("changes", "events"):
        talk.command(
            "subscriptions", "create", body, *chosen, "now", "--body", body, BROKERAGE_DELIVER_ALLOW_PRIVATE="true"
        )
    for command in (("list",), ("pause", "events"), ("resume", "events"), ("replay", "events", "--from", "now")):
        talk.command("subscriptions", *command)
    talk.command("subscriptions", "delete", "events")
    talk.command("subscriptions", "delete", "changes")
    return talk.calls()


def run_deliveries(talk: CallRecorder, has_arrived: Callable[[], bool]) -> set[str]:
    """Deliver until something has arrived; two processes share the work. Return what was asked."""
    environment = talk.by_file | {"BROKERAGE_DELIVER_ALLOW_PRIVATE": "true"}
    with running("deliver", environment=environment) as first:
        first.read_until("Ctrl-C stops")
        wait_until(has_arrived)
        with running("deliver", environment=environment) as second:
            second.read_until("Ctrl-C stops")
            wait_until(lambda: any(head.startswith("DELETE") for head in talk.proxy.heads))
            assert second.stop(signal.SIGTERM) == 0
        assert first.stop(signal.SIGINT) == 0
    return talk.calls()


def run_service(talk: CallRecorder, key: str) -> tuple[dict[str, int], set[str]]:
    """Serve each operation once, certificates checked by a fingerprint; return the statuses and what was asked."""
    with running("serve", "--port", "0", environment=talk.by_fingerprint | {"BROKERAGE_AUDIT_DAYS": "1"}) as service:
        found = re.search(r"http://\S+(?=/v1)", service.read_until("Ctrl-C stops"))
        assert found
        root = found[0]
        wait_until(lambda: _status(f"{root}/livez", "") == 200)
        statuses = {path: _status(f"{root}/v1{asked}", key) for path, asked in OPERATION_PATHS.items()}
        _status(f"{root}/readyz?verbose", key)
    return statuses, talk.calls()


def _status(url: str, key: str) -> int:
    asked: Any = urllib.request.Request(url, headers={"x-api-key": key})  # noqa: S310 - our own service
    try:
        with urllib.request.urlopen(asked) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0
