"""How keys are shown: as a table, as the details of one key, and as JSON."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from brokerage.tables import Column, may_style, table_lines, terminal_width
from service.keys.api_key import ApiKey, DamagedKey

LastUsed = Mapping[str, dt.datetime]

_STYLES = {"active": "green", "expired": "yellow", "revoked": "dim", "damaged": "red"}
_NOTHING = "-"
_COLUMNS = (
    Column("Key id"),
    Column("Name", may_fold=True),
    Column("Scope", may_fold=True),
    Column("Rate per minute", may_fold=True),
    Column("Expires"),
    Column("Last used"),
    Column("State"),
)


def key_state(key: ApiKey | DamagedKey, now: dt.datetime) -> str:
    if isinstance(key, DamagedKey):
        return "damaged"
    return "revoked" if key.revoked else "active" if key.is_usable(now) else "expired"


def key_as_json(key: ApiKey | DamagedKey, used: LastUsed, now: dt.datetime) -> dict[str, Any]:
    """Return all members of a key except its digest; of a damaged key its id and its problem."""
    if isinstance(key, DamagedKey):
        return {"key_id": key.key_id, "state": key_state(key, now), "problem": key.problem}
    members: dict[str, Any] = msgspec.to_builtins(key, builtin_types=(dt.datetime,))
    del members["digest"]
    return members | {"state": key_state(key, now), "last_used": used.get(key.key_id)}


def keys_table(keys: Sequence[ApiKey | DamagedKey], used: LastUsed, now: dt.datetime) -> Iterator[str]:
    """Yield a heading and the line of each key; times are UTC."""
    states = [key_state(key, now) for key in keys]
    rows = [
        (key.key_id, *(_cells(key, used, now) if isinstance(key, ApiKey) else (_NOTHING,) * 5), state)
        for key, state in zip(keys, states, strict=True)
    ]
    return table_lines(_COLUMNS, rows, terminal_width(), [_STYLES[state] for state in states] if may_style() else ())


def _cells(key: ApiKey, used: LastUsed, now: dt.datetime) -> tuple[str, ...]:
    return key.name, _scope_and_licence(key), _rate(key), _day(key.expires, now), _day(used.get(key.key_id), now)


def key_table(key: ApiKey | DamagedKey, used: LastUsed, now: dt.datetime) -> Table:
    """Return the details of one key, a line for each; times are UTC."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    state = key_state(key, now)
    rows: dict[str, str | Text] = {"key id": key.key_id, "state": Text(state, _STYLES[state])}
    members = {"problem": key.problem} if isinstance(key, DamagedKey) else _members(key, used, now)
    for label, value in {**rows, **members}.items():
        table.add_row(label, value if isinstance(value, Text) else Text(value))
    return table


def _members(key: ApiKey, used: LastUsed, now: dt.datetime) -> dict[str, str]:
    members = {
        "name": key.name,
        "scope": _scope(key),
        "fields": _fields(key),
        "profile": key.profile or "",
        "display": key.display or "",
        "rate": f"tier {key.tier}" if key.tier else f"{_rate(key)} per minute" if key.rate else "unlimited",
        "burst": str(key.burst) if key.burst else "",
        "created": _minute(key.created),
        "expires": _minute(key.expires) if key.expires else "never",
        "revoked": _minute(key.revoked) if key.revoked else "",
        "replaced by": key.successor or "",
        "last used": _day(used.get(key.key_id), now),
        "note": key.note,
    }
    return {label: value for label, value in members.items() if value}


def _scope(key: ApiKey) -> str:
    if key.all_companies:
        return "all companies"
    return ", ".join([*key.companies, *(f"{parent} and children" for parent in key.parent_companies)]) or "nothing"


def _scope_and_licence(key: ApiKey) -> str:
    return f"{_scope(key)}, display {key.display}" if key.display else _scope(key)


def _fields(key: ApiKey) -> str:
    return "all" if key.fields is None else ", ".join(key.fields) or "no guarded ones"


def _rate(key: ApiKey) -> str:
    return f"tier {key.tier}" if key.tier else "unlimited" if key.rate is None else str(key.rate)


def _minute(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def _day(moment: dt.datetime | None, now: dt.datetime) -> str:
    """Return the date, or the time if it is today."""
    if moment is None:
        return "never"
    utc = moment.astimezone(dt.UTC)
    return f"today {utc:%H:%M}" if utc.date() == now.astimezone(dt.UTC).date() else f"{utc:%Y-%m-%d}"
