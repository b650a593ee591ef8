"""What the options of `brokerage keys` take and refuse, and how keys look."""

import datetime as dt
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any

import msgspec
import pytest
import rich_click as click
from rich.console import Console

from brokerage.key_tables import key_as_json, key_table, keys_table
from brokerage.keys import (
    DurationOption,
    FieldGroupsOption,
    RateOption,
    TextOption,
    TierOption,
    TimestampOption,
    rate_grant,
)
from mappings import FIELD_GROUPS
from mappings.visibility import DisplayLicence
from service.keys.api_key import ApiKey, DamagedKey, decode_key

NOW = dt.datetime(2026, 11, 21, 12, 3, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def key(**changes: Any) -> ApiKey:
    about: dict[str, Any] = {"key_id": "k", "name": "n", "digest": "secret", "created": NOW, "all_companies": True}
    return ApiKey(**(about | changes))


def table_lines(table: Any) -> list[str]:
    text = StringIO()
    Console(file=text, width=200).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (RateOption(), "unlimited", 0),
        (RateOption(), "300", 300),
        (DurationOption(), "0", dt.timedelta()),
        (DurationOption(), "90m", dt.timedelta(minutes=90)),
        (DurationOption(), "12h", dt.timedelta(hours=12)),
        (DurationOption(), "2w", dt.timedelta(weeks=2)),
        (FieldGroupsOption(), "all", None),
        (FieldGroupsOption(), "none", ()),
        (FieldGroupsOption(), " goals,commission,goals", ("commission", "goals")),
        (FieldGroupsOption(), ",".join(sorted(FIELD_GROUPS)), tuple(sorted(FIELD_GROUPS))),
        (TierOption(), "gold-2", "gold-2"),
        (TextOption(), "Ask Jörg", "Ask Jörg"),
    ],
)
def test_an_option_takes(kind: click.ParamType[Any], text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host whose time zone is far from UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2027-06-30", dt.datetime(2027, 6, 30, tzinfo=dt.UTC)),
        ("2027-06-30T12:30", dt.datetime(2027, 6, 30, 12, 30, tzinfo=dt.UTC)),
        ("2027-06-30T12:30+02:00", dt.datetime(2027, 6, 30, 10, 30, tzinfo=dt.UTC)),
    ],
)
def test_a_time_without_an_offset_is_in_utc_wherever_the_host_is(text: str, value: dt.datetime) -> None:
    assert TimestampOption().convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((RateOption(), text) for text in ("0", "-1", "1.5", "٣", "many", "99999999", "")),
        *((DurationOption(), text) for text in ("7", "-1d", "d", "1y", "99999999d", "٣d", "")),
        *((FieldGroupsOption(), text) for text in ("", "commission,", "all,goals", "none,goals", "price", "Goals")),
        *((TierOption(), text) for text in ("", "Gold", "a_b", "x" * 33, "gold\n")),
        *((TextOption(), text) for text in ("a\x1b[2J", "a\nb", "x" * 501)),
    ],
)
def test_an_option_refuses(kind: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_a_rate_or_a_tier_is_stored_or_what_is_usual() -> None:
    assert [dict(rate_grant(*given)) for given in ((None, None), (0, None), (5, None), (None, "gold"))] == [
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
    assert key_as_json(shown, {}, NOW)["state"] == state
    assert [*keys_table([shown], {}, NOW)][1].endswith(state)
    assert any(line.split() == ["state", state] for line in table_lines(key_table(shown, {}, NOW)))


@pytest.mark.parametrize(
    ("used", "reported"),
    [
        (None, "never"),
        (NOW, "today 12:03"),
        (NOW - 13 * HOUR, "2026-11-20"),
        (NOW.astimezone(dt.timezone(13 * HOUR)), "today 12:03"),
    ],
)
def test_the_last_use_is_shown_roughly(used: dt.datetime | None, reported: str) -> None:
    all_used = {"k": used} if used else {}
    assert reported in [*keys_table([key()], all_used, NOW)][1]
    assert f"last used  {reported}" in table_lines(key_table(key(), all_used, NOW))


def test_the_list_shows_a_display_licence() -> None:
    assert "all companies, display idx" in [*keys_table([key(display=DisplayLicence.IDX)], {}, NOW)][1]
    assert "display" not in [*keys_table([key()], {}, NOW)][1]


def test_a_key_with_an_unknown_licence_is_damaged() -> None:
    licensed = key(display=DisplayLicence.IDX, digest="0" * 64)
    document = msgspec.to_builtins(licensed)
    assert decode_key("k", document) == licensed
    assert isinstance(decode_key("k", document | {"display": "vow"}), DamagedKey)


def test_nothing_that_is_shown_holds_the_digest_or_is_taken_for_markup() -> None:
    shown = key(name="[red]x", note="[/]")
    text = "\n".join([*keys_table([shown], {}, NOW), *table_lines(key_table(shown, {}, NOW))])
    assert text.count("[red]x") == 2
    assert "[/]" in text
    assert "secret" not in text + str(key_as_json(shown, {}, NOW))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "rate       300 per minute"),
        ({"rate": None}, "rate       unlimited"),
        ({"tier": "gold"}, "rate       tier gold"),
        ({}, "fields     all"),
        ({"fields": ()}, "fields     no guarded ones"),
        ({"fields": ("goals",)}, "fields     goals"),
        ({"profile": "compatible"}, "profile    compatible"),
        ({"display": DisplayLicence.IDX}, "display    idx"),
        ({"companies": ("a",), "parent_companies": ("b",), "all_companies": False}, "scope      a, b and children"),
    ],
)
def test_what_a_key_may_do_is_said_in_words(changes: dict[str, Any], line: str) -> None:
    assert line in table_lines(key_table(key(**changes), {}, NOW))
