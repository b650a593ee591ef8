"""Tests of texts: any text finds itself, and Elasticsearch reads each value once for all alternatives."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mappings import COMPANY, LISTING, SOLD_LISTING
from service.reso.filter.clauses import KeywordMatcher, build_clause
from service.reso.filter.parser import MAX_COMPARISONS, parse_filter
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import company
from tests.indexer.conftest import Bench
from tests.odata.conftest import MarketClient, sold
from tests.records import envelope

# What a pattern could take for something else, and letters beyond ASCII that are the same as a letter in another case.
_TEXTS = (
    r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""",
    ".*",
    "a|b",
    "(a)",
    r"\d",
    '"a"',
    "<1-9>",
    "a{2}",
    "K1\u212a",
    "\u017fs",
    "İi",
    "🏠 home",
    "Ünder",
    "same",
    "SAME",
)


@pytest.fixture(scope="module")
async def texts(module_bench: Bench) -> AsyncIterator[MarketClient]:
    """Listings of a company with these texts as `City` and `ListingId`."""
    records = [{"PlatformListingId": f"L{at}", "City": text, "ListingID": text} for at, text in enumerate(_TEXTS)]
    listings = [envelope(LISTING, each, platform_company_id="a") for each in records]
    lines = {COMPANY: [company("a")], LISTING: listings, SOLD_LISTING: [sold("S", "a")]}
    assert (await module_bench.build(lines)).exit_code == 0
    async with serve_feed(module_bench) as feed:
        yield MarketClient(feed.http.session, str(feed.http.make_url("")), feed.keys, module_bench)


async def _found(odata: MarketClient, condition: str) -> set[str]:
    page = await odata.page("Property", "all", filter=condition, top=100)
    return {each["City"] for each in page["value"] if each["ListingKey"] != "S"}


@pytest.mark.parametrize("name", ["City", "ListingId"])
async def test_a_text_is_never_a_pattern(texts: MarketClient, name: str) -> None:
    quoted = {text: "'{}'".format(text.replace("'", "''")) for text in _TEXTS}
    for test, holds in (("contains", str.__contains__), ("startswith", str.startswith), ("endswith", str.endswith)):
        answers = await asyncio.gather(*(_found(texts, f"{test}({name},{quoted[text]})") for text in _TEXTS))
        assert answers == [{each for each in _TEXTS if holds(each, text)} for text in _TEXTS]
    every = " or ".join(f"contains({name},{text})" for text in quoted.values())
    assert await _found(texts, every) == {*_TEXTS}


@pytest.mark.parametrize("name", ["City", "ListingId"])
async def test_letters_of_either_case_are_those_of_ascii(texts: MarketClient, name: str) -> None:
    assert await _found(texts, f"tolower({name}) eq 'same' or contains(tolower({name}),'<1')") == {
        "same",
        "SAME",
        "<1-9>",
    }
    assert await _found(texts, f"contains(tolower({name}),'s')") == {"same", "SAME", "\u017fs"}
    assert await _found(texts, f"startswith(tolower({name}),'s')") == {"same", "SAME"}
    assert await _found(texts, f"endswith(tolower({name}),'k')") == set()
    assert await _found(texts, f"not (startswith(toupper({name}),'S') or contains({name},'a'))") == {
        text for text in _TEXTS if "a" not in text and text[:1] not in {"s", "S"}
    }


@pytest.mark.parametrize("operand", ["City", "tolower(City)"])
def test_alternatives_are_as_few_patterns_as_their_length_allows(operand: str) -> None:
    """Each pattern is compared with every text of the index: at a million listings that takes 40 ms."""
    short = " or ".join(f"contains({operand},'x{number}')" for number in range(MAX_COMPARISONS))
    long = " or ".join(f"contains({operand},'{'x' * 90}{number:02}')" for number in range(MAX_COMPARISONS))
    kinds = " or ".join(f"{test}({operand},'x')" for test in ("contains", "startswith", "endswith"))
    numbers = [len(_patterns(text)) for text in (short, long, f"({kinds}) and ({kinds})")]
    assert numbers[0] == 1
    assert numbers[1] <= 7 if operand == "City" else numbers[1] <= 30
    assert numbers[2] == 6
    assert all(len(pattern) <= 1_000 for pattern in _patterns(long))


def _patterns(text: str) -> list[str]:
    """Return the regular expressions in the clause of a filter of `City`."""
    found: list[str] = []

    def walk(clause: object) -> None:
        if isinstance(clause, dict):
            found.extend(field["value"] for field in clause.get("regexp", {}).values())
        for each in clause.values() if isinstance(clause, dict) else clause if isinstance(clause, list) else ():
            walk(each)

    walk(build_clause(parse_filter(text), lambda _: KeywordMatcher("city")))
    return found
