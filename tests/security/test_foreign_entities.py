"""Questions in OData about entities that a key may not read are answered like those about unknown ones."""

import re
from urllib.parse import quote

import pytest
from yarl import URL

from mappings import AGENT, LISTING
from tests.indexer.conftest import bench, module_bench
from tests.odata.conftest import MarketClient, market
from tests.records import envelope

__all__ = ["bench", "market", "module_bench"]

_OWN, _FOREIGN, _UNKNOWN = (f"0b0e6d3c-5f0d-4f35-9d3c-{number * 12}" for number in "123")
_AT = "2026-05-01T00:00:00Z"
_PAIRS = {"Member": (_FOREIGN, _UNKNOWN), "Property": ("F1", "F9")}
_QUESTIONS = {
    "Member": (
        "Member('{key}')",
        "Member('{key}')/MemberFullName",
        "Member?$filter=MemberKey eq '{key}' or MemberKey eq '{own}'&$count=true",
        "Member/$count?$filter=not (MemberKey in ('{key}'))",
        "Member?$filter=MemberKey ge '{key}'&$orderby=MemberKey desc&$count=true",
        "Property?$filter=ListAgentKey eq '{key}'&$count=true&$expand=ListAgent",
        "Property/$count?$filter=ListAgentKey ne '{key}'",
    ),
    "Property": (
        "Property('{key}')/Media/$count",
        "Property('{key}')/ListAgent",
        "Property?$filter=ListingKey in ('{key}','L0')&$expand=Media,ListAgent&$count=true",
        "Property?$filter=ListingKey ge '{key}'&$orderby=ListingKey desc&$count=true",
        "Media('{key}!{photo}')",
        "Media?$filter=ResourceRecordKey eq '{key}' or ResourceRecordKey eq 'L0'&$count=true",
        "Media/$count?$filter=MediaKey ne '{key}!{photo}'",
        "Media/$count?$filter=MediaKey in ('{key}!{photo}')",
    ),
}
_REQUEST_ID = re.compile(r'"request_id":"\w+"')


@pytest.mark.parametrize("entity", _QUESTIONS)
async def test_foreign_entities_look_like_unknown_ones(market: MarketClient, entity: str) -> None:
    await market.update(
        *(
            envelope(
                LISTING,
                {
                    "PlatformListingId": name,
                    "Status": "Active",
                    "ListAgentUUID": agent,
                    "ListingImages": [{"FullURL": f"https://photos.example/{name}"}],
                },
                updated_at=_AT,
                platform_company_id=company,
            )
            for name, agent, company in (("L0", _OWN, "a"), ("F1", _FOREIGN, "b"))
        )
    )
    await market.update(
        *(
            envelope(AGENT, {"agent_uuid": one, "uuid": one}, updated_at=_AT, platform_company_id=company)
            for one, company in ((_OWN, "a"), (_FOREIGN, "b"))
        ),
        resource=AGENT,
    )
    media = (await market.page("Media", "all", filter="ResourceRecordKey eq 'F1'"))["value"]
    photo = str(media[0]["MediaKey"]).split("!")[1]  # the foreign entities are there for others
    assert (await market.get(f"Member('{_FOREIGN}')", "all")).status == 200
    for question in _QUESTIONS[entity]:
        answers = set()
        for key in _PAIRS[entity]:
            path = question.format(key=key, own=_OWN, photo=photo)
            reply = await market.request(URL(f"{market.root}/{quote(path, safe='/?&=$')}", encoded=True), "a")
            text = _REQUEST_ID.sub("", reply.raw.decode()).replace(quote(key), "").replace(key, "")
            answers.add((reply.status, text))
        assert len(answers) == 1, (question, answers)
