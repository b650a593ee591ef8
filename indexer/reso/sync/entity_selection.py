"""The entities to read from a source, those it describes and authorizes, and the fields to request of each."""

from collections.abc import Mapping
from http import HTTPStatus

from indexer.errors import SourceError
from indexer.reso.client.odata_response import SourceRejectedError
from indexer.reso.dialects.entity_form import SourceForms
from indexer.reso.mirror.mirror_store import Mirror
from indexer.reso.replication_plan import ReplicationPlan
from indexer.reso.sync.entity_reader import EntityReader, SourceContext
from indexer.reso.sync.entity_sync import EntitySync

_DICTIONARY_NOTE = "dictionary"
_REQUIRED_ENTITY = "Property"
NOT_AUTHORIZED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def build_readers(plan: ReplicationPlan, source: SourceContext, forms: SourceForms) -> dict[str, EntityReader]:
    """Return a reader of each mapped entity with a set of its own; raise SourceError if a required one is missing."""
    sets = forms.own_sets()
    if _REQUIRED_ENTITY not in sets:
        raise SourceError(f"The source has no {_REQUIRED_ENTITY}. Is {plan.url} the root of a RESO Web API?")
    entities = plan.dictionary.entities
    readers = {name: EntityReader(name, entities[name], forms.select(name), source, forms.form(name)) for name in sets}
    _record_selection(plan, source.mirror, readers)
    return readers


def _record_selection(plan: ReplicationPlan, mirror: Mirror, readers: dict[str, EntityReader]) -> None:
    """Reload entities whose selected fields changed; publish everything again if the dictionary changed."""
    for name, reader in readers.items():
        selection = [*reader.select, reader.entity.filter, *reader.form.identity]
        if (previous := mirror.read_note(f"asked {name}")) != selection:
            with mirror.transaction():
                if previous is not None:
                    EntitySync.reset(mirror, name)
                mirror.write_note(f"asked {name}", selection)
    fingerprint = f"{plan.dictionary.fingerprint} {plan.time_zone or ''}"
    if (previous := mirror.read_note(_DICTIONARY_NOTE)) != fingerprint:
        with mirror.transaction():
            if previous is not None:
                mirror.mark_all_due()
            mirror.write_note(_DICTIONARY_NOTE, fingerprint)


async def start_authorized(readers: Mapping[str, EntityReader], refused: dict[str, str]) -> dict[str, EntitySync]:
    """Return the syncs of authorized entities, each with its start set; add a reason for each other entity.

    A licence often covers less than the metadata describes. Raise SourceRejectedError for a required entity. An entity
    that was readable before raises it later, when it is read.
    """
    syncs = {name: EntitySync(reader) for name, reader in readers.items()}
    for name, sync in list(syncs.items()):
        try:
            await sync.set_start()
        except SourceRejectedError as error:
            if error.status not in NOT_AUTHORIZED or name == _REQUIRED_ENTITY:
                raise
            refused[name] = str(error)
            del syncs[name]
    return syncs
