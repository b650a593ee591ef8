"""What `brokerage doctor` says of the user that Elasticsearch knows the service as: who it is and what it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AuthenticationException, UnsupportedProductError

from brokerage.doctor_tls import is_local
from mappings import RESOURCES
from service.soundness import Finding, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings

USER, RIGHTS = "user", "rights"
# What the service needs (docs/elasticsearch-rights.md): of the cluster, of what it reads, of what it writes.
CLUSTER = ("monitor",)
READ = ("read", "view_index_metadata")
WRITTEN = ("index",)
# What nobody who has broken into the service should be able to do.
_TOO_MUCH = ("index", "delete", "delete_index")
_ROLE = "Give it the role `brokerage_service` of docs/elasticsearch-rights.md"


def read_names(connection: ConnectionSettings) -> list[str]:
    """Return the aliases and indices that the service reads."""
    return [*map(connection.alias, RESOURCES), connection.keys_index, connection.control_index]


def usage_index(connection: ConnectionSettings) -> str:
    """Return the one index that the service writes: when each key was last used."""
    return f"{connection.prefix}key_usage"


async def user_findings(client: AsyncElasticsearch, connection: ConnectionSettings) -> list[Finding]:
    """Return who the user is and what it may do or may not; nothing where Elasticsearch does not answer.

    Everybody may ask this of himself.
    """
    try:
        user = (await client.security.authenticate()).body
        rights = await client.security.has_privileges(cluster=[*CLUSTER, "all"], index=rights_asked(connection))
    except AuthenticationException:
        return [_refused(connection)]
    except ApiError as error:
        # A node without security has no such path.
        return [_without_security(connection)] if error.status_code in {400, 404, 405} else [_unknown(error.message)]
    except (TransportError, UnsupportedProductError):
        return []
    return [_user(user), *rights_findings(rights.body, connection)]


def rights_asked(connection: ConnectionSettings) -> list[dict[str, Any]]:
    """Return what is asked of indices: the body of `_has_privileges`."""
    return [
        {"names": read_names(connection), "privileges": [*READ, *_TOO_MUCH]},
        {"names": [usage_index(connection)], "privileges": [*WRITTEN]},
    ]


def _user(user: Mapping[str, Any]) -> Finding:
    kind = "API key of " if user.get("authentication_type") == "api_key" else ""
    roles = ", ".join(user.get("roles", ())) or "no roles of its own"
    return Finding(subject=USER, detail=f"{kind}{user['username']}, {roles}")


def _unknown(reason: str) -> Finding:
    return Finding(subject=USER, state=State.UNKNOWN, problem="it cannot be asked", detail=reason)


def _refused(connection: ConnectionSettings) -> Finding:
    given = (
        "BROKERAGE_ELASTICSEARCH_API_KEY"
        if connection.api_key
        else "BROKERAGE_ELASTICSEARCH_USERNAME and BROKERAGE_ELASTICSEARCH_PASSWORD"
        if connection.username
        else ""
    )
    return Finding(
        subject=USER,
        state=State.WRONG,
        problem="Elasticsearch refuses the credentials" if given else "Elasticsearch asks for credentials",
        detail=f"They are from {given}." if given else "None are set.",
        remedy="Correct them." if given else "Set BROKERAGE_ELASTICSEARCH_API_KEY, or a user and its password.",
    )


def _without_security(connection: ConnectionSettings) -> Finding:
    if is_local(connection):
        return Finding(subject=USER, detail="none needed: no security, and on this host")
    return Finding(
        subject=USER,
        state=State.WARNING,
        problem="Elasticsearch has no security",
        detail="Whoever reaches it can read and change everything.",
        remedy="Turn on `xpack.security.enabled`, or let nobody else reach it.",
    )


def rights_findings(answer: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield what is missing and what is too much, of an answer of `_has_privileges`."""
    told = [*_missing(answer, connection), *_superfluous(answer)]
    yield from told or [Finding(subject=RIGHTS, detail="all that are needed, and no more")]


def _missing(answer: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    needed = dict.fromkeys(read_names(connection), READ) | {usage_index(connection): WRITTEN}
    lacking: dict[str, list[str]] = {
        right: [name for name, rights in needed.items() if right in rights and not answer["index"][name][right]]
        for right in (*READ, *WRITTEN)
    }
    lacking |= {right: ["the cluster"] for right in CLUSTER if not answer["cluster"][right]}
    if any(lacking.values()):
        told = (f"`{right}` on {', '.join(names)}" for right, names in lacking.items() if names)
        yield Finding(
            subject=RIGHTS,
            # Without the others something is not looked at or not kept; requests are answered all the same.
            state=State.WRONG if lacking["read"] else State.WARNING,
            problem="some are missing",
            detail=f"{'; '.join(told)}.",
            remedy=f"{_ROLE}. Is BROKERAGE_INDEX_PREFIX the one that its names begin with?",
        )


def _superfluous(answer: Mapping[str, Any]) -> Iterator[Finding]:
    if answer["cluster"]["all"]:
        yield _warning("it may do everything", "Whoever breaks into the service has the whole cluster.")
        return
    changeable = sorted(
        name for name, has in answer["index"].items() if any(has.get(right) for right in _TOO_MUCH if "read" in has)
    )
    if changeable:
        yield _warning("it may change what it only reads", f"{', '.join(changeable)}.")


def _warning(problem: str, detail: str) -> Finding:
    remedy = f"{_ROLE} alone, and let the indexer be another user."
    return Finding(subject=RIGHTS, state=State.WARNING, problem=problem, detail=detail, remedy=remedy)
