"""What both checkouts serve: one source, loaded once with the commands of one checkout, and the processes of both."""

import datetime as dt
import json
import os
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from embedded.node_options import free_ports
from tests.golden.exchange import Services
from tests.golden.requests import KEYS, TOKENS, VALUES
from tests.golden.rows import requests

Run = Callable[..., str]
# Commands from standard input in one process, since imports take most of the time of each.
_COMMANDS = """
import json, os, sys
from brokerage.command import main
for line in sys.stdin:
    settings, arguments = json.loads(line)
    os.environ.update(settings)
    try:
        main(arguments, standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise
    print("done", flush=True)
"""
_SERVE = "from brokerage.command import main; main()"
_LISTINGS = "240"
# Listings of the company, by the name of their value: what is special about each, and how some change afterwards.
_SPECIAL: dict[str, dict[str, Any]] = {
    "listing": {"SharedPartnerData": {"attribute_1": "one"}},
    "exact": {"LotSizeAcres": 0.23, "BathroomsFull": 1.5, "BathroomsTotal": 2.5, "ListPrice": 350_000.5},
    "odd": {"PlatformListingId": "O'Neil;ü%41(1)!", "PublicRemarks": 'A tab\t, "quotes", </script>, \u2028 and ü'},
    "bare": {"Latitude": "north", "Longitude": None, "Address": None, "ListingImages": [], "ListPrice": None},
    "coming": {"Status": "ComingSoon"},
    "withheld": {"InternetEntireListingDisplayYN": False},
    "hidden": {"InternetAddressDisplayYN": False},
    "expired": {"Status": "Expired"},
    "own": {"AgentCreatedListing": True},
}
_CHANGES: dict[str, dict[str, Any]] = {
    "cheaper": {"ListPrice": 123_000},
    "withdrawn": {"Status": "Withdrawn"},
    "opted_out": {"InternetEntireListingDisplayYN": False},
}


@dataclass(frozen=True)
class Installation:
    """A prefix with records and keys: the texts of the keys, and for each key the values of rows."""

    settings: dict[str, str]
    keys: dict[str, str]
    values: dict[str, dict[str, str]]


class Checkout:
    """The commands of a checkout, on one cluster."""

    def __init__(self, path: Path, cluster_url: str, folder: Path) -> None:
        """Work in `folder`, with the Python of the checkout if it has its own."""
        own = path / ".venv" / "bin" / "python"
        self.python, self.folder = str(own if own.exists() else sys.executable), folder
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith("BROKERAGE_")}
        self._environment |= {"ELASTICSEARCH_URL": cluster_url, "PYTHONPATH": f"{path}:{path / 'consumer'}"}

    def start(self, code: str, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
        """Start Python code; its log is a file of the folder."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with (self.folder / "log").open("ab") as log:
            command = [self.python, "-c", code, *arguments]
            return subprocess.Popen(command, cwd=self.folder, env=self._environment | settings, stderr=log, **pipes)  # noqa: S603 - our own command

    @contextmanager
    def commands(self) -> Iterator[Run]:
        """Yield a function that runs `brokerage …`, with settings from then on, and returns what it prints."""
        with self.start(_COMMANDS) as process:

            def run(*arguments: str, **settings: str) -> str:
                assert process.stdin
                assert process.stdout
                print(json.dumps([settings, arguments]), file=process.stdin, flush=True)
                printed = ""
                for line in process.stdout:
                    if line == "done\n":
                        return printed
                    printed += line
                raise RuntimeError(f"{arguments} failed: {(self.folder / 'log').read_text()}")

            yield run


@contextmanager
def serve(checkouts: Sequence[Checkout], keys: dict[str, str], **settings: str) -> Iterator[Services]:
    """Run the service of one or two checkouts, with the same settings."""
    ports = free_ports(len(checkouts))
    settings |= {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_DRAIN_SECONDS": "0", "BROKERAGE_REFUSALS_PER_MINUTE": "0"}
    with ExitStack() as stack:
        for checkout, port in zip(checkouts, ports, strict=True):
            process = stack.enter_context(checkout.start(_SERVE, "serve", "--port", str(port), **settings))
            stack.callback(process.terminate)
            while not _responds(f"http://127.0.0.1:{port}/readyz"):
                if process.poll() is not None:
                    raise RuntimeError(f"A service has ended: {(checkout.folder / 'log').read_text()}")
                time.sleep(0.1)
        yield Services((ports[0], ports[-1]), keys)


def _responds(url: str) -> bool:
    """Whether there is any response: before its port is open, a service has made all checks."""
    try:
        urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own service
    except OSError as error:
        return isinstance(error, HTTPError)
    return True


def load(base: Checkout, run: Run, records: dict[str, str], **settings: str) -> Installation:
    """Load the source and its changes; publish in between, so that there are files of changes, and newer changes."""
    run("index", "reindex", "source", **settings)
    run("index", "update", "special")
    keys = create_keys(run)
    with serve((base,), keys, **settings) as services:
        tokens = {key: _tokens(services, key) for key in keys}
    for changes in ("changes", "later"):
        run("index", "publish", "--company", VALUES["company"])
        run("index", "update", changes)
    values = records | _files(Path(settings["BROKERAGE_EXPORTS"])) | _key_texts(keys)
    return Installation(settings, keys, {name: values | tokens[name] for name in keys})


def create_keys(run: Run, **settings: str) -> dict[str, str]:
    """Return the texts of all keys; one is revoked."""
    made = {
        name: json.loads(run("keys", "create", name, *options.split(), "--json", **settings))
        for name, options in KEYS.items()
    }
    run("keys", "revoke", made["revoked"]["key_id"])
    return {name: each["key"] for name, each in made.items()}


def _key_texts(keys: dict[str, str]) -> dict[str, str]:
    _, number, secret = keys["all"].split("_")
    pairs = {"all": f"{number}:{secret}", "wrong": "x:y", "compatible": f"x:{keys['compatible']}"}
    basic = {f"basic_{name}": b64encode(pair.encode()).decode() for name, pair in pairs.items()}
    return basic | {f"key_{name}": text for name, text in keys.items()}


def _tokens(services: Services, key: str) -> dict[str, str]:
    """Return the token of each view of a key, `refused` if it may not have it."""
    asked = {name: next(requests(target, {}, key)) for name, target in TOKENS.items()}
    return {name: json.loads(services.ask(each)[0].body).get("next", "refused") for name, each in asked.items()}


def _files(exports: Path) -> dict[str, str]:
    """Return the names of files of the latest publication."""
    manifest = json.loads((exports / VALUES["company"] / "listings" / "manifest.json").read_text())
    names = {each["format"]: each["name"] for each in manifest["files"]}
    return {
        "file": names["ndjson.zst"],
        "parquet": names["parquet"],
        "change_file": manifest["changes"][0]["name"],
        "manifest": f"{manifest['publication']}.json",
        "to_file": f"/v1/exports/listings/{names['ndjson.zst']}?platform_company_id={VALUES['company']}",
    }


def write_sources(run: Run, folder: Path) -> dict[str, str]:
    """Write the source, and three sources of changes; return the values of records."""
    run("sample", "source", "--listings", _LISTINGS)
    own, sibling = VALUES["company"], VALUES["sibling"]
    listings, agents = _read(folder, "listings", own), _read(folder, "agents", own)
    sold, office = _read(folder, "sold_listings", own)[0], _read(folder, "offices", sibling)[0]
    named = dict(zip((*_SPECIAL, *_CHANGES, "deleted", "moved", "removed", "dearer"), listings, strict=False))
    special = [_changed(named[name], members) for name, members in _SPECIAL.items()]
    changes = [_changed(named[name], members) for name, members in _CHANGES.items()]
    now = changes[0]["updated_at"]
    special[0]["shared_partner_data_updated_at"] = agents[1]["deactivated_at"] = office["deactivated_at"] = now
    changes += [_changed(named["deleted"], {}, deleted=True), _changed(named["moved"], {}, platform_company_id=sibling)]
    later = [_changed(named["removed"], {}, deleted=True), _changed(named["dearer"], {"ListPrice": 2_000_000})]
    _write(folder / "special", listings=special, agents=[_changed(agents[1], {})], offices=[_changed(office, {})])
    _write(folder / "changes", listings=changes, agents=[_changed(agents[2], {}, deactivated_at=now)])
    _write(folder / "later", listings=later)
    agent = agents[0]["record"]
    digits = sha256(agent["agent_uuid"].encode()).hexdigest()
    return {
        **{name: line["record"]["PlatformListingId"] for name, line in named.items()},
        "odd": _SPECIAL["odd"]["PlatformListingId"],
        "agent": agent["agent_uuid"],
        "agent_mail": agent["platform_agent_id"],
        "agent_number": agents[0]["source_agent_id"],
        "inactive": agents[1]["record"]["agent_uuid"],
        "sold_listing": sold["record"]["PlatformListingId"],
        "seller": sold["record"]["ListAgentUUID"],
        "office": agent["platform_office_id"],
        "closed": office["record"]["platform_office_id"],
        "team": _read(folder, "teams", own)[0]["record"]["uuid"],
        "two_digits": digits[:2],
        "four_digits": digits[:4],
    }


def _read(folder: Path, resource: str, company: str) -> list[Any]:
    lines = [json.loads(line) for line in (folder / "source" / f"{resource}.ndjson").read_text().splitlines()]
    return [line for line in lines if line["platform_company_id"] == company]


def _write(source: Path, **lines: list[dict[str, Any]]) -> None:
    source.mkdir()
    for resource, each in lines.items():
        (source / f"{resource}.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in each))


def _changed(line: dict[str, Any], members: dict[str, Any], **envelope: object) -> dict[str, Any]:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return line | {"updated_at": now, "record": line["record"] | members} | envelope
