"""Compare the responses of two checkouts: `python -m tests.golden BASE THIS`.

One node, loaded once with the commands of BASE; then the service of both, with the same settings, over the same data,
and every request of `tests.golden.requests` to both. Prints each difference; the exit code is 1 if there is any, or if
an operation, a parameter or a problem code was not covered. Not at midnight in UTC: some windows begin with a day.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from embedded import EmbeddedCluster, NodeOptions
from tests.golden import requests as table
from tests.golden.comparison import differences
from tests.golden.exchange import Pair, Response, Services
from tests.golden.installation import Checkout, Installation, create_keys, load, serve, write_sources
from tests.golden.rows import Request, again, in_other_forms, of_parameters, parameters, requests

_ONE_SHARD = {"BROKERAGE_INDEX_PREFIX": "one-", "BROKERAGE_SHARDS": "1"}
_THREE_SHARDS = {"BROKERAGE_INDEX_PREFIX": "three-", "BROKERAGE_SHARDS": "3"}
_EMPTY = {"BROKERAGE_INDEX_PREFIX": "empty-"}
_NOTHING = {"BROKERAGE_INDEX_PREFIX": "nothing-"}
_FOLLOWED = 2  # pages after a first one
_ARRIVES_SECONDS = 1.0  # within which a service has begun with a request, or noticed that its client has gone
_USUAL = {
    "BROKERAGE_CONTACT": "api@golden.example",
    "BROKERAGE_CORS_ORIGINS": "https://portal.example",
    "BROKERAGE_TRUSTED_PROXIES": "127.0.0.0/8",
    "BROKERAGE_TIERS": "gold=3000/500",
    "BROKERAGE_FAILURES_PER_MINUTE": "0",
    "BROKERAGE_DEADLINE_SECONDS": "60",
}
_OTHER = {
    "BROKERAGE_TOLERATE_UNKNOWN_PARAMETERS": "true",
    "BROKERAGE_CORS_ORIGINS": "*",
    "BROKERAGE_SERVER_TIMING": "true",
    "BROKERAGE_TRUSTED_PROXIES": "127.0.0.0/8",
    "BROKERAGE_FAILURES_PER_MINUTE": "2",
    "BROKERAGE_KEY_CONCURRENCY": "1",
    "BROKERAGE_CONCURRENCY": "1",
    "BROKERAGE_QUEUE": "0",
    "BROKERAGE_DEADLINE_SECONDS": "4",
    "BROKERAGE_EXPORTS": "",
}


@dataclass
class Play:
    """Asks both services, and keeps what differed and what was covered."""

    only: re.Pattern[str]
    without: re.Pattern[str]
    started: float = field(default_factory=time.monotonic)
    found: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)

    def ask(self, services: Services, request: Request, tags: tuple[str, str] = ("", "")) -> Pair:
        """Return both responses."""
        first, second = services.ask(request, tags)
        if self.only.search(str(request)) and not self.without.search(str(request)):
            self.found += (found := differences(request, first, second))
            print(*found, sep="\n", end="\n" * bool(found))
        self.statuses[first.code] += 1
        if first.code < 400:
            self.accepted.add(f"{request.target}?{request.body}" if request.body else request.target)
        else:
            self.problems.update(re.findall(r'"code":"([a-z-]+)"', first.body.decode(errors="replace")))
        return first, second

    def ask_all(self, services: Services, asked: Iterable[Request]) -> None:
        """Ask each request once."""
        for request in asked:
            self.ask(services, request)

    def ask_fully(self, services: Services, asked: Iterable[Request]) -> None:
        """Ask each request, and if it succeeds, again in other ways; and for the following pages."""
        for request in asked:
            first, second = self.ask(services, request)
            for another in again(request) if first.code == 200 else ():
                self.ask(
                    services, another, (first.header("ETag"), second.header("ETag")) if another.has_tag else ("", "")
                )
            for _ in range(_FOLLOWED):
                if target := _next(first):
                    first, _ = self.ask(services, replace(request, target=target))

    def report(self, done: str) -> None:
        """Print what has been done."""
        counted = ", ".join(f"{count} of {status}" for status, count in sorted(self.statuses.items()))
        print(f"{done} after {time.monotonic() - self.started:.0f} s: {counted or 'no requests'}", flush=True)


def _next(response: Response) -> str:
    """Return the target of the next page, empty on the last one."""
    if b'"@odata.nextLink":' in response.body:
        return str(json.loads(response.body)["@odata.nextLink"]).partition("golden.example")[2]
    link = re.search(r'<([^>]*)>; rel="next"', response.header("Link"))
    return link[1] if link else ""


def main() -> None:
    """Play everything, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="the checkout whose responses are right")
    parser.add_argument("this", type=Path, help="the checkout that is compared with it")
    parser.add_argument("--only", default="", help="compare requests that match an expression, such as ' /v1/reso'")
    parser.add_argument("--without", default="(?!)", help="do not compare those that match, such as '/docs/changelog'")
    given = parser.parse_args()
    # The node lives for minutes: Java's optimizing compiler would take processor time and never pay.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    play = Play(re.compile(given.only), re.compile(given.without))
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=512)) as node, tempfile.TemporaryDirectory() as scratch:
        base, this = (Checkout(each.resolve(), node.url, Path(scratch)) for each in (given.base, given.this))
        with base.commands() as run:
            records = write_sources(run, Path(scratch))
            one, three = (
                load(base, run, records, **shards, BROKERAGE_EXPORTS=f"{scratch}/{shards['BROKERAGE_INDEX_PREFIX']}")
                for shards in (_ONE_SHARD, _THREE_SHARDS)
            )
            run("index", "reindex", "source/companies.ndjson", **_EMPTY)
            empty = create_keys(run)
            nothing = create_keys(run, **_NOTHING)
        play.report("loaded")
        with serve((base, this), one.keys, **_USUAL, **one.settings) as services:
            document, documented = _play_everything(play, services, one)
        with serve((base, this), three.keys, **_USUAL, **three.settings) as services:
            values = _with_event(services, three)
            for key in ("all", "parent"):
                play.ask_all(services, requests(table.RECORDS + table.FEED + table.RESO, values[key], key))
        play.report("three shards")
        with serve((base, this), empty, **_USUAL, **_EMPTY) as services:
            play.ask_all(services, requests(table.EMPTY, {}))
        with serve((base, this), nothing, **_USUAL, **_NOTHING) as services:
            play.ask_all(services, requests(table.NOTHING, {}))
        with serve((base, this), one.keys, **{**one.settings, **_OTHER}) as services:
            _play_failures(play, services, one, node)
    play.report("failures")
    missing = [*_uncovered(play, document), *sorted(documented - play.problems - table.UNPROVOKED)]
    kinds = Counter(re.findall("(?m)^    (status|header [^:]+|body)", "\n".join(play.found))).most_common()
    counted = ", ".join(f"{count} of {kind}" for kind, count in kinds)
    print(
        *(f"not covered: {each}" for each in missing), f"{len(play.found)} differences: {counted or 'none'}", sep="\n"
    )
    sys.exit(bool(play.found or missing))


def _play_everything(play: Play, services: Services, data: Installation) -> tuple[dict[str, Any], set[str]]:
    """Ask for everything; return the OpenAPI document and the documented problem codes."""
    values = _with_event(services, data)
    everything = values["all"]
    play.ask_fully(services, requests(table.RECORDS + table.FEED + table.RESO, everything, "all"))
    for request in requests(table.RECORDS, everything, "all"):
        play.ask_all(services, in_other_forms(request))
    play.report("all in all forms")
    for key in table.READERS:
        rows = table.RECORDS + table.FEED + table.RESO * (key in table.RESO_READERS)
        play.ask_all(services, requests(rows, values[key], key))
    play.report("all with other keys")
    _play_entities(play, services)
    play.report("entity sets")
    play.ask_fully(services, [*requests(table.OPEN, {}), *map(Request, _site(services))])
    document = json.loads(services.ask(Request("/v1/openapi.json"))[0].body)
    play.ask_all(services, of_parameters(document, everything))
    play.ask_all(services, requests(table.HEADERS, everything))
    play.ask_all(services, (Request(name, raw=raw) for name, raw in table.RAW.items()))
    play.report("site, headers and refusals")
    problems = services.ask(Request("/docs/problems.md"))[0].body.decode()
    return document, {*re.findall("(?m)^## `([a-z-]+)`", problems)}


def _rows(services: Services, target: str) -> list[Any]:
    """Return the rows of a page of the RESO Web API."""
    rows: list[Any] = json.loads(services.ask(Request(f"/v1/reso{target}", "all"))[0].body)["value"]
    return rows


def _with_event(services: Services, data: Installation) -> Mapping[str, dict[str, str]]:
    """Return the values of each key, with the number of an early event."""
    event = {"event": str(_rows(services, "/EntityEvent?$top=3")[-1]["EntityEventSequence"])}
    return {key: values | event for key, values in data.values.items()}


def _site(services: Services) -> list[str]:
    """Return the paths of all pages and assets: those that a page that is reached from the first links to."""
    paths = ["/docs", "/llms.txt"]
    for path in paths:
        body = services.ask(Request(path))[0].body.decode(errors="replace")
        found = re.findall(r"[\"'(=](?:http://golden\.example)?(/docs(?:/[\w.-]+)*)", body)
        paths += [each for each in dict.fromkeys(found) if each not in paths]
    return paths


def _play_entities(play: Play, services: Services) -> None:
    """Ask for each entity set with each key, and for each of its properties."""
    declared = json.loads(services.ask(Request("/v1/reso/$metadata?$format=json", "all"))[0].body)["org.reso.metadata"]
    for name in (each["name"] for each in _rows(services, "")):
        [identifier] = declared[name]["$Key"]
        rows = _rows(services, f"/{name}?$top=20")
        values = {"set": name, "id": identifier, "key": str(rows[0][identifier]).replace("'", "''")}
        for key in table.RESO_READERS:
            play.ask_all(services, requests(table.ENTITIES, values, key))
        for member, facts in declared[name].items():
            if member[0] not in "$@" and facts.get("$Kind") != "NavigationProperty":
                value = str(next((row[member] for row in rows if row[member] is not None), "nothing"))
                is_text = facts.get("$Type", "Edm.String") == "Edm.String"
                literal = f"'{value.replace(chr(39), chr(39) * 2)}'" if is_text else value
                play.ask_all(services, requests(table.PROPERTIES, {**values, "name": member, "value": literal}, "all"))


def _play_failures(play: Play, services: Services, data: Installation, node: EmbeddedCluster) -> None:
    """Ask services with other settings, over a node that stops to respond and then ends."""
    values = data.values["all"]
    play.ask_all(services, requests(table.OTHERWISE, values))
    waiting, page = requests(table.HELD, values)
    _ask_during(play, services, waiting, page)
    node.processes[0].send_signal(signal.SIGSTOP)
    _ask_during(play, services, page, replace(page, key="one"))
    play.ask(services, page)
    node.stop()
    play.ask_all(services, requests(table.STOPPED, values))


def _ask_during(play: Play, services: Services, held: Request, request: Request) -> None:
    """Ask while another request is in progress, which is given up then."""
    connections = services.send(held)
    time.sleep(_ARRIVES_SECONDS)
    play.ask(services, request)
    for connection in connections:
        connection.close()
    time.sleep(_ARRIVES_SECONDS)


def _uncovered(play: Play, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield each documented path and parameter that no request that succeeded had."""
    for path, item in document["paths"].items():
        template = re.compile("(/v1)?" + re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
        targets = [each.partition("?") for each in play.accepted]
        queries = [query for target, _, query in targets if template.fullmatch(target)]
        sent = {pair.partition("=")[0] for query in queries for pair in query.split("&")}
        if not queries:
            yield path
        yield from (f"{path}?{name}" for name in parameters(document, item["get"]) if name not in sent)


if __name__ == "__main__":
    main()
