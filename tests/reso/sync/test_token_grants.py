"""Tokens by password and refresh token: renewed, kept across restarts, and refused with a clear message."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import SourceError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import DICTIONARY
from tests.reso.sync.test_reso_client import PROPERTIES, SECRET, client, open_client

USER, PASSWORD = "agent", "the-very-password"
WITH_CLIENT = ServerSettings(client=("us", SECRET), refreshes=True)
WITH_USER = ServerSettings(client=("us", SECRET), user=(USER, PASSWORD), refreshes=True, token_requests=2)


def user(server: ResoServer, **options: Any) -> dict[str, Any]:
    return client(server, username=USER, password=PASSWORD, in_flight=1, **options)


async def read_once(server: ResoServer, folder: Path, refresh_token: str) -> None:
    """Read one page in a run of its own, whose mirror is in a folder."""
    mirror = Mirror(folder / "mirror.sqlite", DICTIONARY)
    settings = ResoSettings(rate=1000.0, **client(server, refresh_token=refresh_token))
    web = ResoClient(server.url, settings, print, mirror=mirror)
    await web.open()
    try:
        await web.fetch_page(PROPERTIES)
    finally:
        await web.close()
        mirror.close()


async def test_a_password_opens_a_source_and_refresh_tokens_keep_it_open() -> None:
    async with serve_in_loop(WITH_USER) as server, open_client(server, **user(server)) as (web, waits):
        for _ in range(5):
            await web.fetch_page(PROPERTIES)
        assert server.auth.grants == ["password", "refresh_token", "refresh_token"]
        server.auth.revoke_refresh_tokens()
        for _ in range(3):
            await web.fetch_page(PROPERTIES)
        assert server.auth.grants == ["password", "refresh_token", "refresh_token", "password"]
        assert PASSWORD not in str(waits)


async def test_a_refresh_token_is_exchanged_and_its_follower_is_kept_for_the_next_run(tmp_path: Path) -> None:
    """The source accepts each of them once."""
    async with serve_in_loop(WITH_CLIENT) as server:
        form = f"grant_type=client_credentials&client_id=us&client_secret={SECRET}"
        server.auth.issue(form, "")
        for _ in range(3):
            await read_once(server, tmp_path, "refresh-1")
        assert server.auth.grants == ["client_credentials", *["refresh_token"] * 3]
        server.auth.issue(form, "")
        await read_once(server, tmp_path, f"refresh-{server.auth.issued}")
        assert server.auth.grants[-2:] == ["client_credentials", "refresh_token"]


_REJECTED = "Check BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_CLIENT_SECRET"


@pytest.mark.usefixtures("short_delays")
@pytest.mark.parametrize(
    ("settings", "secrets", "said"),
    [
        (WITH_CLIENT, {"client_secret": "wrong"}, r"returned 401 without a token\. Check BROKERAGE_RESO_CLIENT"),
        (replace(WITH_CLIENT, token_requests=0), {}, _REJECTED),
        (WITH_USER, {"username": USER, "password": "wrong"}, r"400 without a token\. Check BROKERAGE_RESO_USERNAME"),
        (WITH_CLIENT, {"client_secret": "", "refresh_token": "wrong"}, r"token\. Check BROKERAGE_RESO_REFRESH_TOKEN"),
    ],
)
async def test_refused_secrets_and_tokens_are_reported_without_them(
    settings: ServerSettings, secrets: dict[str, str], said: str
) -> None:
    async with serve_in_loop(settings) as server:
        given = client(server, **secrets) | {"in_flight": 1}
        async with open_client(server, **given) as (web, waits):
            with pytest.raises(SourceError, match=said) as refused:
                await asyncio.wait_for(web.fetch_page(PROPERTIES), 120)
    assert not [text for text in ("wrong", SECRET) if text in f"{refused.value} {waits}"]


_PAIR = "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD must be set together"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"username": USER}, _PAIR),
        ({"password": PASSWORD}, _PAIR),
        ({"username": USER, "password": PASSWORD}, "need BROKERAGE_RESO_TOKEN_URL"),
        ({"refresh_token": "x"}, "need BROKERAGE_RESO_TOKEN_URL"),
        ({"token_url": "https://x"}, "or BROKERAGE_RESO_REFRESH_TOKEN"),
        ({"token_url": "https://x", "client_id": "us"}, "BROKERAGE_RESO_TOKEN_URL needs"),
        ({"token_url": "https://x", "token": "x"}, "Set BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_TOKEN_URL, not both"),
    ],
)
def test_credentials_that_say_two_things_or_half_of_one_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        ResoClient("https://x", ResoSettings(**options), print)
