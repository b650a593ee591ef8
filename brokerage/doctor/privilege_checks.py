"""The Elasticsearch user of the service as `brokerage doctor` checks it: identity and privileges."""

from collections.abc import Iterator, Mapping
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch, AuthenticationException, UnsupportedProductError

from brokerage.doctor.tls_checks import is_loopback_only
from cluster.connection import ConnectionSettings
from mappings import RESOURCES
from mappings.generations import served_pattern
from service.health.checks import Finding, FindingState

USER, PRIVILEGES = "user", "rights"
# The required privileges (docs/elasticsearch-rights.md) on the cluster, on indices it reads, on indices it writes.
CLUSTER_PRIVILEGES = ("monitor",)
READ_PRIVILEGES = ("read", "view_index_metadata")
WRITE_PRIVILEGES = ("index",)
# On the aliases: without it, the console does not show which index is to be compacted.
STATISTICS_PRIVILEGES = ("monitor",)
# On the aliases of the shards of an index that has several.
SERVED_PRIVILEGES = ("read",)
# Privileges that an attacker who takes over the service must not gain.
_EXCESSIVE = ("index", "delete", "delete_index")
_ROLE = "Give it the role `brokerage_service` of docs/elasticsearch-rights.md"


def read_indices(connection: ConnectionSettings) -> list[str]:
    """Return the aliases and indices that the service reads."""
    return [*map(connection.alias, RESOURCES), connection.keys_index, connection.control_index]


def served_patterns(connection: ConnectionSettings) -> list[str]:
    """Return patterns for the aliases through which the service reads indices of several shards."""
    return [served_pattern(connection.alias(resource)) for resource in RESOURCES]


def usage_index(connection: ConnectionSettings) -> str:
    """Return the only index that the service writes: when each key was last used."""
    return connection.usage_index


async def user_findings(client: AsyncElasticsearch, connection: ConnectionSettings) -> list[Finding]:
    """Return the user and its missing or excessive privileges; nothing if Elasticsearch does not respond.

    Every user may query its own privileges.
    """
    try:
        user = (await client.security.authenticate()).body
        rights = await client.security.has_privileges(
            cluster=[*CLUSTER_PRIVILEGES, "all"], index=privileges_request(connection)
        )
    except AuthenticationException:
        return [_bad_credentials(connection)]
    except ApiError as error:
        # A node without security has no such path.
        return [_without_security(connection)] if error.status_code in {400, 404, 405} else [_unknown(error.message)]
    except (TransportError, UnsupportedProductError):
        return []
    return [_user(user), *privilege_findings(rights.body, connection)]


def privileges_request(connection: ConnectionSettings) -> list[dict[str, Any]]:
    """Return the `index` part of the body of `_has_privileges`."""
    return [
        {"names": read_indices(connection), "privileges": [*READ_PRIVILEGES, *_EXCESSIVE]},
        {"names": [*map(connection.alias, RESOURCES)], "privileges": [*STATISTICS_PRIVILEGES]},
        {"names": served_patterns(connection), "privileges": [*SERVED_PRIVILEGES]},
        {"names": [usage_index(connection)], "privileges": [*WRITE_PRIVILEGES]},
    ]


def _user(user: Mapping[str, Any]) -> Finding:
    kind = "API key of " if user.get("authentication_type") == "api_key" else ""
    roles = ", ".join(user.get("roles", ())) or "no roles of its own"
    return Finding(subject=USER, detail=f"{kind}{user['username']}, {roles}")


def _unknown(reason: str) -> Finding:
    return Finding(subject=USER, state=FindingState.UNKNOWN, problem="could not be checked", detail=reason)


def _bad_credentials(connection: ConnectionSettings) -> Finding:
    variables = (
        "BROKERAGE_ELASTICSEARCH_API_KEY"
        if connection.api_key
        else "BROKERAGE_ELASTICSEARCH_USERNAME and BROKERAGE_ELASTICSEARCH_PASSWORD"
        if connection.username
        else ""
    )
    return Finding(
        subject=USER,
        state=FindingState.WRONG,
        problem="Elasticsearch rejects the credentials" if variables else "Elasticsearch requires credentials",
        detail=f"They come from {variables}." if variables else "None are set.",
        remedy="Correct them." if variables else "Set BROKERAGE_ELASTICSEARCH_API_KEY, or a user and its password.",
    )


def _without_security(connection: ConnectionSettings) -> Finding:
    if is_loopback_only(connection):
        return Finding(subject=USER, detail="none needed: no security, but only reachable from this host")
    return Finding(
        subject=USER,
        state=FindingState.WARNING,
        problem="Elasticsearch has no security",
        detail="Anyone who can connect to it can read and change everything.",
        remedy="Set `xpack.security.enabled`, or restrict network access to it.",
    )


def privilege_findings(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield missing and excessive privileges from a response of `_has_privileges`."""
    problems = [*_missing(response, connection), *_missing_on_shards(response, connection), *_excessive(response)]
    yield from problems or [Finding(subject=PRIVILEGES, detail="all required ones, and no more")]


def _missing(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    needed: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(read_indices(connection), READ_PRIVILEGES),
        usage_index(connection): WRITE_PRIVILEGES,
    }
    needed |= dict.fromkeys(map(connection.alias, RESOURCES), (*READ_PRIVILEGES, *STATISTICS_PRIVILEGES))
    lacking: dict[str, list[str]] = {
        right: [name for name, rights in needed.items() if right in rights and not response["index"][name][right]]
        for right in (*READ_PRIVILEGES, *WRITE_PRIVILEGES, *STATISTICS_PRIVILEGES)
    }
    lacking |= {right: ["the cluster"] for right in CLUSTER_PRIVILEGES if not response["cluster"][right]}
    if any(lacking.values()):
        missing = (f"`{right}` on {', '.join(names)}" for right, names in lacking.items() if names)
        yield Finding(
            subject=PRIVILEGES,
            # Without the others a check or a record of usage is missing, but requests are served.
            state=FindingState.WRONG if lacking["read"] else FindingState.WARNING,
            problem="some are missing",
            detail=f"{'; '.join(missing)}.",
            remedy=f"{_ROLE}. Do its index names begin with BROKERAGE_INDEX_PREFIX?",
        )


def _missing_on_shards(response: Mapping[str, Any], connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield what is needed as soon as an index has several shards: by then it is too late."""
    if lacking := [name for name in served_patterns(connection) if not response["index"][name]["read"]]:
        yield Finding(
            subject=PRIVILEGES,
            state=FindingState.WARNING,
            problem="some are missing for indices of several shards",
            detail=f"`read` on {', '.join(lacking)}. Requests fail once BROKERAGE_SHARDS is above 1.",
            remedy=f"{_ROLE}.",
        )


def _excessive(response: Mapping[str, Any]) -> Iterator[Finding]:
    if response["cluster"]["all"]:
        yield _warning("it has all privileges", "An attacker who takes over the service controls the whole cluster.")
        return
    changeable = sorted(
        name for name, has in response["index"].items() if any(has.get(right) for right in _EXCESSIVE if "read" in has)
    )
    if changeable:
        yield _warning("it can write indices that it only reads", f"{', '.join(changeable)}.")


def _warning(problem: str, detail: str) -> Finding:
    remedy = f"{_ROLE} only, and use another user for the indexer."
    return Finding(subject=PRIVILEGES, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)
