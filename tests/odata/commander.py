"""Runs RESO's test tool, web-api-commander, against the service: `make reso COMMANDER=DIR`.

The tool is RESO's, under a licence that forbids to copy it: it runs from a checkout that you have built. The requests
are those of the checkout's sample script, with a key and properties of ours. Prints passed, failed and skipped
scenarios, and names those that failed. Exit codes: 0 none failed, 1 one failed, 2 the tool is not there.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import aiohttp
import orjson

from bench import programs
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_FEATURES = Path("src/main/java/org/reso/certification/features")
_SCRIPT = "sample-web-api-server.core.resoscript"
_MISSING = """\
COMMANDER is not a built checkout of RESO's web-api-commander: {missing} is missing.
Clone https://github.com/RESOStandards/web-api-commander, write a pom.xml with the dependencies of build.gradle, and:
  mvn compile dependency:build-classpath -Dmdep.outputFile=cp.txt
After that run `make reso COMMANDER=<checkout>`. It needs Java 11 or later.
RESO's newer tool, the npm package @reso-standards/reso-certification 0.10.6, cannot be installed: npm does not have the
package @reso-standards/reso-metadata-utils, on which it depends."""
_DICTIONARY_SETS = ("property", "member", "office", "teams")
# Lookups are strings with the names of the Data Dictionary.
_PARAMETERS = {
    "SingleLookupValue": "Pending",
    "SingleValueLookupValue": "'Pending'",
    "MultipleValueLookupField": "Heating",
    "MultipleLookupValue1": "Natural gas",
    "MultipleLookupValue2": "Electric",
    "MultipleValueLookupValue1": "'Natural gas'",
    "MultipleValueLookupValue2": "'Electric'",
    "WebAPI102_RequiredResourceList": "Property,Member,Office",
}


class _Suite(NamedTuple):
    """Features of the tool, and how it is called for them."""

    title: str
    steps: str
    features: tuple[str, ...]
    options: tuple[str, ...]


_SUITES = (
    *(
        _Suite(
            f"Web API Core {version}",
            "WebAPIServerCore",
            (f"web-api/v{version}/web-api-server.core.feature",),
            (f"-Dversion={version}", "-DuseStringEnums=true"),
        )
        for version in ("2.0.0", "2.1.0")
    ),
    _Suite(
        "Data Dictionary 2.0, strict",
        "DataDictionary",
        tuple(f"data-dictionary/v2.0/resource-tests/{name}.feature" for name in _DICTIONARY_SETS),
        ("-Dversion=2.0", "-Dstrict=true"),
    ),
)


def _script(checkout: Path, root: str, key: str, listing: Mapping[str, str]) -> str:
    text = (checkout / _SCRIPT).read_text(encoding="utf-8")
    for name, value in {"WebAPIURI": root, "BearerToken": key}.items():
        text = re.sub(rf"<{name}>.*?</{name}>", f"<{name}>{escape(value)}</{name}>", text, flags=re.DOTALL)
    for name, value in {**_PARAMETERS, **_values_of(listing)}.items():
        text = re.sub(rf'(Name="{name}"\s+Value=)"[^"]*"', lambda match: match[1] + quoteattr(value), text)  # noqa: B023
    return text


def _values_of(listing: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that are values of a listing, so that filters by them find something."""
    return {"KeyValue": f"'{listing['ListingKey']}'", "DateValue": listing["ListingContractDate"]}


def _run(checkout: Path, suite: _Suite, script: Path) -> list[tuple[str, str]]:
    """Return the scenarios that the tool has run, with their outcome."""
    report = script.with_suffix(".json")
    dependencies = (checkout / "cp.txt").read_text(encoding="utf-8").strip()
    command = [
        *("java", *suite.options, f"-DpathToRESOScript={script}", "-cp", f"target/classes:{dependencies}"),
        *("io.cucumber.core.cli.Main", "--plugin", f"json:{report}"),
        *("--glue", f"org.reso.certification.stepdefs#{suite.steps}"),
        *(str(_FEATURES / name) for name in suite.features),
    ]
    log = script.with_suffix(".log")
    with log.open("wb") as output:
        subprocess.run(command, cwd=checkout, stdout=output, stderr=subprocess.STDOUT, check=False)  # noqa: S603 - named by the user
    if not report.exists() or not report.stat().st_size:
        raise RuntimeError(f"the tool has written no report: {log.read_text(errors='replace')[-2000:]}")
    return list(_outcomes(report))


def _outcomes(report: Path) -> Iterator[tuple[str, str]]:
    for feature in orjson.loads(report.read_bytes()):
        for scenario in feature.get("elements", ()):
            if scenario["type"] == "scenario":
                found = {step["result"]["status"] for step in (*scenario.get("before", ()), *scenario["steps"])}
                failed = found - {"passed", "skipped"}
                yield scenario["name"], "failed" if failed else "skipped" if "skipped" in found else "passed"


async def _serve_and_run(checkout: Path, url: str, folder: Path, listings: int) -> bool:
    """Load a sample, run all suites, print the outcomes; return whether none failed."""
    connection = ConnectionSettings(url=(url,), prefix="reso-")
    write_source(folder / "source", listings=listings)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        with open_source(str(folder / "source")) as source:
            await reindex(IndexerContext(client, connection, settings), source, RebuildRequest(force=True))
        key = (
            await KeyStore(client, connection.keys_index).create(KeyGrant("reso", all_companies=True, rate=None))
        ).reveal()
    async with programs.service(url, connection.prefix) as service:
        await service.ready()
        root = f"{service.url}/v1/reso"
        script = folder / "core.resoscript"
        script.write_text(_script(checkout, root, key, await _some_listing(root, key)), encoding="utf-8")
        return all([await asyncio.to_thread(_report, checkout, suite, script) for suite in _SUITES])


async def _some_listing(root: str, key: str) -> dict[str, str]:
    """Return a listing that has a date, and others with earlier and later dates."""
    options = "$select=ListingKey,ListingContractDate&$filter=ListingContractDate ne null"
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}, raise_for_status=True) as http,
        http.get(f"{root}/Property?{options}&$orderby=ListingContractDate&$top=1&$skip=50") as answer,
    ):
        [listing] = (await answer.json())["value"]
        return dict(listing)


def _report(checkout: Path, suite: _Suite, script: Path) -> bool:
    outcomes = _run(checkout, suite, script)
    counts = Counter(outcome for _, outcome in outcomes)
    print(f"{suite.title}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    for name, outcome in outcomes:
        if outcome == "failed":
            print(f"  failed: {name}")
    return bool(outcomes) and not counts["failed"]


def main() -> int:
    """Run the tool; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a built checkout of web-api-commander")
    parser.add_argument("--listings", type=int, default=2_000)
    given = parser.parse_args()
    needed = (_SCRIPT, "cp.txt", "target/classes")
    missing = [name for name in needed if given.checkout is None or not (given.checkout / name).exists()]
    if missing:
        print(_MISSING.format(missing=missing[0] if given.checkout else "its folder"), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        passed = asyncio.run(_serve_and_run(given.checkout.resolve(), cluster.url, Path(name), given.listings))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
