"""What the options of `brokerage keys` take and refuse, and how keys look."""

from __future__ import annotations

import datetime as dt
from io import StringIO
from typing import Any

import pytest
import rich_click as click
from rich.console import Console

from brokerage.keys_options import Duration, Fields, Rate, Tier, Words, limits
from brokerage.keys_table import as_json, key_table, keys_table
from mappings import FIELD_GROUPS
from service.keys.record import ApiKey, DamagedKey

NOW = dt.datetime(2026, 11, 21, 12, 3, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def key(**changes: Any) -> ApiKey:
    """Return a key for all companies."""
    about: dict[str, Any] = {"key_id": "k", "name": "n", "digest": "secret", "created": NOW, "all_companies": True}
    return ApiKey(**(about | changes))


def printed(table: Any) -> list[str]:
    """Return the lines of a table."""
    text = StringIO()
    Console(file=text, width=200).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Rate(), "unlimited", 0),
        (Rate(), "300", 300),
        (Duration(), "0", dt.timedelta()),
        (Duration(), "90m", dt.timedelta(minutes=90)),
        (Duration(), "12h", dt.timedelta(hours=12)),
        (Duration(), "2w", dt.timedelta(weeks=2)),
        (Fields(), "all", None),
        (Fields(), "none", ()),
        (Fields(), " goals,commission,goals", ("commission", "goals")),
        (Fields(), ",".join(sorted(FIELD_GROUPS)), tuple(sorted(FIELD_GROUPS))),
        (Tier(), "gold-2", "gold-2"),
        (Words(), "Ask Jörg", "Ask Jörg"),
    ],
)
def test_an_option_takes(kind: click.ParamType[Any], text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((Rate(), text) for text in ("0", "-1", "1.5", "٣", "many", "99999999", "")),
        *((Duration(), text) for text in ("7", "-1d", "d", "1y", "99999999d", "٣d", "")),
        *((Fields(), text) for text in ("", "commission,", "all,goals", "none,goals", "price", "Goals")),
        *((Tier(), text) for text in ("", "Gold", "a_b", "x" * 33, "gold\n")),
        *((Words(), text) for text in ("a\x1b[2J", "a\nb", "x" * 501)),
    ],
)
def test_an_option_refuses(kind: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_a_rate_or_a_tier_is_stored_or_what_is_usual() -> None:
    assert [dict(limits(*given)) for given in ((None, None), (0, None), (5, None), (None, "gold"))] == [
        {},
        {"rate": None},
        {"rate": 5},
        {"tier": "gold"},
    ]


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (key(), "active"),
        (key(expires=NOW + HOUR), "active"),
        (key(expires=NOW), "expired"),
        (key(revoked=NOW, expires=NOW), "revoked"),
        (DamagedKey("k", "no name"), "damaged"),
    ],
)
def test_a_key_has_one_state(shown: ApiKey | DamagedKey, state: str) -> None:
    assert as_json(shown, {}, NOW)["state"] == state
    assert printed(keys_table([shown], {}, NOW))[1].endswith(state)
    assert any(line.split() == ["state", state] for line in printed(key_table(shown, {}, NOW)))


@pytest.mark.parametrize(
    ("used", "told"),
    [
        (None, "never"),
        (NOW, "today 12:03"),
        (NOW - 13 * HOUR, "2026-11-20"),
        (NOW.astimezone(dt.timezone(13 * HOUR)), "today 12:03"),
    ],
)
def test_the_last_use_is_told_roughly(used: dt.datetime | None, told: str) -> None:
    all_used = {"k": used} if used else {}
    assert told in printed(keys_table([key()], all_used, NOW))[1]
    assert f"last used  {told}" in printed(key_table(key(), all_used, NOW))


def test_nothing_that_is_shown_holds_the_digest_or_is_taken_for_markup() -> None:
    shown = key(name="[red]x", note="[/]")
    text = "\n".join([*printed(keys_table([shown], {}, NOW)), *printed(key_table(shown, {}, NOW))])
    assert text.count("[red]x") == 2
    assert "[/]" in text
    assert "secret" not in text + str(as_json(shown, {}, NOW))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "rate       300 a minute"),
        ({"rate": None}, "rate       unlimited"),
        ({"tier": "gold"}, "rate       tier gold"),
        ({}, "fields     all"),
        ({"fields": ()}, "fields     none that is guarded"),
        ({"fields": ("goals",)}, "fields     goals"),
        ({"companies": ("a",), "parent_companies": ("b",), "all_companies": False}, "scope      a, b and children"),
    ],
)
def test_what_a_key_may_do_is_said_in_words(changes: dict[str, Any], line: str) -> None:
    assert line in printed(key_table(key(**changes), {}, NOW))
