"""What of a source is read: the entities that it describes and grants, and the fields that are asked for of each."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from indexer.errors import SourceError
from indexer.reso.answers import Refused
from indexer.reso.reader import Reader
from indexer.reso.walks import Walks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.reso.access import Access
    from indexer.reso.mirror import Mirror
    from indexer.reso.plan import Plan

_NOTE_DICTIONARY = "dictionary"
_ESSENTIAL = "Property"
NOT_GRANTED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def readers_of(plan: Plan, source: Access, offered: Mapping[str, frozenset[str]]) -> dict[str, Reader]:
    """Return a reader of each entity that the source describes, with `offered` fields; raise SourceError."""
    if _ESSENTIAL not in offered:
        raise SourceError(f"The source has no {_ESSENTIAL}. Is {plan.url} the root of a RESO Web API?")
    readers = {
        name: Reader(name, entity, _select(plan, name, offered[name]), source)
        for name, entity in plan.dictionary.entities.items()
        if name in offered
    }
    _note_selection(plan, source.mirror, readers)
    return readers


def _select(plan: Plan, name: str, offered: frozenset[str]) -> tuple[str, ...]:
    """Return the fields to ask for: a name that a source does not know may be an error to it."""
    asked = plan.dictionary.asked(name)
    if missing := [field for field in asked[:2] if field not in offered]:
        raise SourceError(f"{name} of the source has no {' and no '.join(missing)}: it cannot be followed.")
    return tuple(field for field in asked if field in offered)


def _note_selection(plan: Plan, mirror: Mirror, readers: dict[str, Reader]) -> None:
    """Read an entity anew whose fields are others than before; tell everything anew under another dictionary."""
    for name, reader in readers.items():
        asked = [*reader.select, reader.entity.filter]
        if (before := mirror.note(f"asked {name}")) != asked:
            with mirror.transaction():
                if before is not None:
                    Walks.begin_anew(mirror, name)
                mirror.write_note(f"asked {name}", asked)
    told_by = f"{plan.dictionary.fingerprint} {plan.time_zone or ''}"
    if (before := mirror.note(_NOTE_DICTIONARY)) != told_by:
        with mirror.transaction():
            if before is not None:
                mirror.make_all_due()
            mirror.write_note(_NOTE_DICTIONARY, told_by)


async def granted(readers: Mapping[str, Reader], withheld: list[str]) -> dict[str, Walks]:
    """Return the walks of what is granted, each marked where it begins; `withheld` is told of the rest.

    A licence often covers less than the description names. What was read before and is refused now raises Refused
    when it is read, as does what nothing can be done without.
    """
    walks = {name: Walks(reader) for name, reader in readers.items()}
    for name, each in list(walks.items()):
        try:
            await each.mark()
        except Refused as refused:
            if refused.status not in NOT_GRANTED or name == _ESSENTIAL:
                raise
            withheld.append(f"{refused} Nothing of {name} is read.")
            del walks[name]
    return walks
