"""Values that no source should send and some do."""

import math
from typing import Any

from hypothesis import strategies as st

KEYS = ["k", "K 1/2", "***", "0B0E6D3C-5F0D-4F35-9D3C-111111111111", "ä" * 128, "a" * 129, "x\x00\ud800%", "Teams"]
TEXTS = [
    *(
        "",
        " ",
        "***",
        "\x00",
        "\ud800",
        "\t\n",
        "\x7f\x85",
        '"\\',
        "Sample Associati",
        "SampleMlsStatusEnumValue",
        "😀" * 9000,
    ),
    *(
        "Active",
        "closed",
        "Coming Soon",
        "Pending",
        "Residential",
        "Land",
        "Photo",
        "Public",
        "Livestream Public",
        "Inactive",
    ),
    *("2026-11-20", "2026-11-20T10:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60+23:59", "2026-13-41", "10:00"),
    *("2200-12-31T23:59:59-23:59", "1900-01-01T00:00:00+23:59", "25:61", "2026-11-20T10:00:00", "2026-02-29"),
    *("47.5", "-1", "1e999", "1_000", "NaN", "374524099053.44", "Y", "no", "a,b,***,", "image/jpeg", "jpeg", "exe"),
    *("America/Los_Angeles", "America", "../etc/passwd", "/", "Europe/Nowhere", "\x00zone"),
]
NUMBERS = [0, 1, -1, 2, 0.25, -0.0, 460581576218.37, 2**31, 2**53 + 1, 2**64, 10**4000, 1e300, -1e-300]
ODD = [math.nan, math.inf, -math.inf]

# Values to take at random where drawing each would take too long.
POOL: list[Any] = [
    *(*TEXTS, *KEYS, *NUMBERS, *ODD, None, True, False, [], {}, [[]], [None], ["a", "***", "b\ud800"], [{}], [2**70]),
    *({"Deck": True, "\ud800": True}, {"Name": "a"}, [{"Name": {}}], [{"Value": math.nan}], {"a": [{"b": None}]}),
    *(["Public", {}], ["Active"], [True, 1, 0.5], {"Name": "a", "Value": "b"}, [["Photo"]]),
]
_NAMES = st.sampled_from(["Name", "Value", "LookupValue", "Deck", "", "\ud800"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(POOL) | st.text(st.characters(codec=None), max_size=20) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=4,
)
