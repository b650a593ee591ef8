"""Credentials do not cross a network unencrypted unless that is allowed: to Elasticsearch, a source or the service."""

from typing import Any

import pytest

from brokerage_feed import Feed
from brokerage_feed.errors import KeyExposed
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError
from cluster.tls import is_exposed
from indexer.errors import SourceError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.settings import ResoSettings

HERE = ("http://127.0.0.1:9200", "http://[::1]:9200", "http://localhost:9200", "https://node.example:9200")
ELSEWHERE = ("http://node.example:9200", "http://10.0.0.1:9200", "http://[fe80::1]:9200", "http://127.0.0.1.example:1")
OAUTH = {"client_id": "us", "client_secret": "it"}


@pytest.mark.parametrize("url", [*HERE, "", "http://[", "ftp://node.example"])
def test_addresses_that_expose_nothing(url: str) -> None:
    assert not is_exposed(url)


@pytest.mark.parametrize("url", ELSEWHERE)
def test_exposed_credentials_are_refused_by_setting_name(url: str) -> None:
    with pytest.raises(SettingError, match="BROKERAGE_ELASTICSEARCH_ALLOW_HTTP=true"):
        ConnectionSettings(url=(url,), api_key="k")
    with pytest.raises(SettingError, match="BROKERAGE_ELASTICSEARCH_ALLOW_HTTP=true"):
        ConnectionSettings(url=(url.replace("//", "//u:p@"),))
    with pytest.raises(KeyExposed, match="BROKERAGE_PULL_ALLOW_HTTP=true"):
        Feed(url, "key")
    with pytest.raises(SourceError, match=r"URL begins with http://, so the access token .*BROKERAGE_RESO_ALLOW_HTTP"):
        _client(url, token="t")
    with pytest.raises(SourceError, match="BROKERAGE_RESO_TOKEN_URL begins with http://"):
        _client("https://node.example", token_url=url, **OAUTH)


@pytest.mark.parametrize("url", ELSEWHERE)
def test_it_can_be_allowed_and_needs_no_setting_without_credentials(url: str) -> None:
    ConnectionSettings(url=(url,))
    ConnectionSettings(url=(url,), api_key="k", allow_http=True)
    Feed(url, "key", allow_http=True)
    _client(url)
    _client(url, token_url=url, allow_http=True, **OAUTH)


@pytest.mark.parametrize("url", HERE)
def test_this_host_and_tls_need_no_setting(url: str) -> None:
    ConnectionSettings(url=(url,), api_key="k")
    Feed(url, "key")
    _client(url, token="t")


def _client(url: str, **settings: Any) -> ResoClient:
    return ResoClient(url, ResoSettings(**settings), lambda _: None)
