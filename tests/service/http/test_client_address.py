"""The address of a client: without proxies, behind trusted ones, and with forged headers."""

import re
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.settings import SettingError, load_settings
from service.http.requests import MAX_PROXIES, forwarded_address
from service.settings import ServiceSettings, read_networks

TRUSTED = read_networks(("10.0.0.0/8", "2001:db8::/32", "192.0.2.7"))


def client(peer: str, *lines: str) -> str:
    """Return the client's address by the peer of the connection and the lines of the header."""
    return str(forwarded_address(peer, lines, TRUSTED))


@pytest.mark.parametrize(
    ("peer", "lines", "expected"),
    [
        ("198.51.100.1", [], "198.51.100.1"),
        ("198.51.100.1", ["203.0.113.9"], "198.51.100.1"),  # an untrusted peer may send anything
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9"], "203.0.113.9"),  # the left was there when it came
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9, 10.9.9.9,192.0.2.7"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.9, 10.2.2.2"], "203.0.113.9"),
        ("10.0.0.1", ["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ("10.0.0.1", ["nonsense, 203.0.113.9"], "203.0.113.9"),  # it is not read so far
        ("10.0.0.1", ["203.0.113.9, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9,"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:4711"], "10.0.0.1"),
        ("10.0.0.1", ["010.0.0.1"], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("2001:db8::1", ["2a00::5"], "2a00::5"),
        ("2001:db8::1", ["fe80::1%eth0\x1b[2J"], "fe80::1"),
        ("fe80::7%eth0", [], "fe80::7"),
        ("2001:db8::1%eth0", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9", *["10.2.2.2"] * (MAX_PROXIES - 1)], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9", *["10.2.2.2"] * MAX_PROXIES], "10.2.2.2"),
        ("", ["203.0.113.9"], "None"),
    ],
)
def test_the_header_counts_from_the_right_and_only_from_trusted_peers(
    peer: str, lines: list[str], expected: str
) -> None:
    assert client(peer, *lines) == expected


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60))
def test_no_header_makes_an_address_of_what_is_none(text: str) -> None:
    ip_address(client("10.0.0.1", text))
    assert client("198.51.100.1", text) == "198.51.100.1"


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "proxy", "10.0.0.0/8 10.0.0.1", "*"])
def test_what_is_not_a_network_is_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"BROKERAGE_TRUSTED_PROXIES: " + re.escape(repr(text))):
        load_settings(ServiceSettings, {"BROKERAGE_TRUSTED_PROXIES": f"10.0.0.0/8,{text}"})
