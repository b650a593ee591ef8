"""The negotiated media type."""

import pytest

from service.http.requests import GEOJSON, prefers


@pytest.mark.parametrize(
    "accept",
    [
        GEOJSON,
        "Application/GEO+JSON",
        f"{GEOJSON}, application/json;q=0.9",
        f"application/json;q=0.8,{GEOJSON};q=0.801",
        f"text/html, {GEOJSON};q=0.001",
        f"{GEOJSON}, */*;q=0.5",
        f"{GEOJSON};charset=utf-8 ; q=1, application/json;q=0.999",
        f'{GEOJSON};profile="a;b", application/json;q=0.5',
        "application/json;q=0, application/*",
        "application/json;q=0.5, */*",
        # The narrowest range counts, wherever it stands.
        f"*/*, application/*;q=0.2, {GEOJSON};q=0.3",
    ],
)
def test_a_client_that_weighs_geojson_higher_gets_it(accept: str) -> None:
    # The last: */* gives JSON nothing, application/* does.
    assert prefers(accept, GEOJSON)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/*",
        "application/json",
        "text/html, application/xhtml+xml, */*;q=0.8",
        f"{GEOJSON}, application/json",
        f"{GEOJSON}, */*",
        f"{GEOJSON};q=0.5, application/json;q=0.5",
        f"{GEOJSON};q=0",
        f"{GEOJSON};q=0.2, */*;q=0.3",
        # Neither can be had.
        "text/csv",
        f"{GEOJSON};q=0, application/json;q=0",
        # The lower of two weights.
        f"{GEOJSON}, {GEOJSON};q=0.1, application/json;q=0.2",
        # No such grammar.
        f"{GEOJSON};q=2",
        f"{GEOJSON};q=0.1234",
        f"{GEOJSON};q=",
        f"{GEOJSON};;q=1",
        "application/geo json",
        f"x{GEOJSON}",
    ],
)
def test_json_is_for_all_others(accept: str) -> None:
    assert not prefers(accept, GEOJSON)
