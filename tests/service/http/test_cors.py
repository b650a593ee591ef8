"""Cross-origin requests over real HTTP."""

import pytest

from tests.service.raw_http import RawResponse, exchange_one, request, serve_raw
from tests.service.stand_in import StandIn

LISTED, OTHER = "https://portal.example", "https://other.example"
ORIGINS = (LISTED, "http://localhost:3000")
ASKS_BEFORE = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "x-api-key"}


def cors_headers(answer: RawResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("Access-Control-")}


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_nothing_is_said_unless_it_is_configured(stand_in: StandIn, method: str) -> None:
    async with serve_raw(stand_in.url) as port:
        answer = await exchange_one(port, request("/v1/companies", method, {"Origin": LISTED, **ASKS_BEFORE}))
    assert cors_headers(answer) == {}
    assert "Origin" not in answer.headers.get("Vary", "")


@pytest.mark.parametrize("origins", [ORIGINS, ("*",), (LISTED, "*")])
async def test_a_preflight_response_lists_what_may_be_sent(stand_in: StandIn, origins: tuple[str, ...]) -> None:
    async with serve_raw(stand_in.url, cors_origins=origins) as port:
        answer = await exchange_one(port, request("/v1/listings", "OPTIONS", {"Origin": LISTED, **ASKS_BEFORE}))
    is_any = "*" in origins
    assert answer.status == 204
    allowed = cors_headers(answer)
    assert {*allowed.pop("Access-Control-Allow-Headers").lower().split(", ")} >= {"x-api-key", "if-none-match"}
    assert allowed == {
        "Access-Control-Allow-Origin": "*" if is_any else LISTED,
        "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
        "Access-Control-Max-Age": "7200",
    }
    assert answer.headers.get("Vary") == (None if is_any else "Origin")


# As UI5's ODataModel of version 4, DevExtreme's ODataStore, datajs and Dataverse scripts send them; a browser asks in
# lower case, in the order of the alphabet.
ODATA_SCRIPTS = {
    "UI5": "authorization,content-type,odata-maxversion,odata-version,x-csrf-token",
    "DevExtreme": "x-api-key,x-requested-with",
    "datajs": "accept,authorization,maxdataserviceversion,odata-maxversion",
    "fetch": "content-type,odata-maxversion,odata-version,prefer,x-api-key",
}


@pytest.mark.parametrize("script", ODATA_SCRIPTS)
async def test_odata_clients_in_browsers_may_send_their_headers(stand_in: StandIn, script: str) -> None:
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": ODATA_SCRIPTS[script]}
    async with serve_raw(stand_in.url, cors_origins=ORIGINS) as port:
        for path in ("", "/$metadata", "/Property", "/Property/$count", "/Property('x')/Media"):
            answer = await exchange_one(port, request(f"/v1/reso{path}", "OPTIONS", {"Origin": LISTED, **asked}))
            allowed = cors_headers(answer)["Access-Control-Allow-Headers"].lower().split(", ")
            assert (answer.status, {*ODATA_SCRIPTS[script].split(",")} - {*allowed}) == (204, set())


@pytest.mark.parametrize(("path", "status"), [("/v1/companies", 200), ("/v1/companies?q=1", 400), ("/v1/x", 404)])
async def test_a_script_of_a_listed_site_may_read_every_answer(stand_in: StandIn, path: str, status: int) -> None:
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    key = {"x-api-key": stand_in.grant()}
    async with serve_raw(stand_in.url, cors_origins=ORIGINS) as port:
        for origin in ORIGINS:
            answer = await exchange_one(port, request(path, headers={**key, "Origin": origin}))
            assert answer.status == status
            assert cors_headers(answer).keys() == {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
            assert cors_headers(answer)["Access-Control-Allow-Origin"] == origin
            exposed = {*cors_headers(answer)["Access-Control-Expose-Headers"].split(", ")}
            assert {"ETag", "Link", "X-Total-Count", "X-Next-Updated-Since", "X-Request-Id", "RateLimit"} <= exposed
            assert {"OData-Version", "Preference-Applied"} <= exposed
            assert answer.headers.getall("Vary")[0].endswith("Origin")
            assert (status == 200) is answer.headers["Vary"].startswith("x-api-key, Accept-Encoding, ")


@pytest.mark.parametrize("origin", [OTHER, LISTED + ".evil.example", LISTED.upper(), LISTED + ":443", "null", "*", ""])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_an_unlisted_origin_gets_no_cors_headers(stand_in: StandIn, origin: str, method: str) -> None:
    async with serve_raw(stand_in.url, cors_origins=ORIGINS) as port:
        answer = await exchange_one(port, request("/livez", method, {"Origin": origin, **ASKS_BEFORE}))
    assert cors_headers(answer) == {}
    assert answer.headers["Vary"] == "Origin"


async def test_responses_without_an_origin_vary_too(stand_in: StandIn) -> None:
    async with serve_raw(stand_in.url, cors_origins=ORIGINS) as port:
        answer = await exchange_one(port, request("/livez"))
    assert (cors_headers(answer), answer.headers["Vary"]) == ({}, "Origin")


async def test_credentials_are_never_allowed(stand_in: StandIn) -> None:
    for origins in (ORIGINS, ("*",)):
        async with serve_raw(stand_in.url, cors_origins=origins) as port:
            for method in ("GET", "OPTIONS"):
                answer = await exchange_one(port, request("/livez", method, {"Origin": LISTED, **ASKS_BEFORE}))
                assert "Access-Control-Allow-Credentials" not in answer.headers
