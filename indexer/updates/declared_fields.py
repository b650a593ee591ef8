"""A live index of an earlier version, whose strict mapping would reject every document of this one."""

from indexer.changes.write_session import WriteSession
from indexer.errors import RefusedError
from mappings import Resource
from mappings.index_body import mapped_names


def require_declared_fields(session: WriteSession, resource: Resource) -> None:
    """Raise RefusedError if the live index lacks fields that documents of this version have."""
    if missing := sorted(mapped_names(resource) - session.fields):
        raise RefusedError(
            f"{session.live} was built by an earlier version and lacks {', '.join(missing)}. "
            f"Rebuild it with `brokerage index reindex SOURCE {resource.alias}`, then repeat the update."
        )
