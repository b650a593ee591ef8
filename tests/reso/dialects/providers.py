"""The services that tests replicate from. Each behaviour comes from a public document: see README.md in this folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from indexer.reso.client.limits import SourceLimits
from tests.indexer.conftest import Bench
from tests.reso.replication_bench import COMPANY_MAP, ReplicaProcess
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.server_settings import Dialect, RequestLimit, ServerSettings
from tests.reso.world.generated_world import World, make_world

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_TEAMS = frozenset({"Teams", "TeamMembers"})
_WITHOUT_EVENTS = frozenset({"EntityEvent"})
TOKEN = "a-token-of-the-provider"
CLIENT = ("client", "secret")
# The only system of the MLS Grid server; names are case-sensitive.
SYSTEM = "actris"

TRESTLE = Dialect(
    name="trestle",
    honours_prefer=False,
    top_is_page_size=True,
    max_page_of_keys=300_000,
    replication="by id",
    limits=(RequestLimit(_MINUTE, requests=180), RequestLimit(_HOUR, requests=7_200)),
)
BRIDGE = Dialect(
    name="bridge",
    embedded={"Property": ("Media",), "Member": ("Media",), "Office": ("Media",)},
    not_addressable=frozenset({"Media"}),
    replication="by path",
    max_page_of_replication=2_000,
    limits=(RequestLimit(_MINUTE, requests=334), RequestLimit(_HOUR, requests=5_000)),
)
_SEARCHED_ALWAYS = frozenset({"OriginatingSystemName", "ModificationTimestamp", "MlgCanView"})
MLS_GRID = Dialect(
    name="mlsgrid",
    keys="prefixed",
    prefix="ACT",
    system=SYSTEM,
    searchable={
        "Property": _SEARCHED_ALWAYS | {"StandardStatus", "PropertyType", "ListingId", "ListOfficeMlsId"},
        "Member": _SEARCHED_ALWAYS | {"MemberMlsId"},
        "Office": _SEARCHED_ALWAYS | {"OfficeMlsId"},
        "OpenHouse": _SEARCHED_ALWAYS | {"OpenHouseKey", "ListingId", "OpenHouseDate"},
    },
    most_or=5,
    default_order="time",
    honours_prefer=False,
    top_is_page_size=True,
    refuses_large_top=True,
    max_page_with_expand=1_000,
    expanded={"Property": ("Media",), "Member": ("Media",), "Office": ("Media",)},
    not_addressable=frozenset({"Media"}),
    deletion_mark="MlgCanView",
    requires_gzip=True,
    limits=(
        RequestLimit(1.0, requests=2),
        RequestLimit(_HOUR, requests=7_200, bytes=4 * 10**9),
        RequestLimit(_DAY, requests=40_000),
    ),
    says_retry_after=False,
)
SPARK = Dialect(
    name="spark",
    default_order="key",
    honours_prefer=False,
    top_is_page_size=True,
    expanded={"Property": ("Media", "OpenHouse"), "Member": ("Media",), "Office": ("Media",)},
    not_addressable=frozenset({"Media", "OpenHouse"}),
)
NUMBERED = Dialect(name="generic", keys="number")


@dataclass(frozen=True)
class Provider:
    """A dialect, the settings of its server, and what an operator gives the client."""

    dialect: Dialect
    server: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)  # environment variables
    options: tuple[str, ...] = ()  # of the command
    has_teams: bool = True

    def settings(self, *, is_limited: bool = False, **changes: Any) -> ServerSettings:
        """Return the settings of the server; without `is_limited` it has no limits on requests."""
        dialect = self.dialect if is_limited else replace(self.dialect, limits=())
        return ServerSettings(**{"dialect": dialect, **self.server, **changes})

    def client_settings(self, server: ResoServer) -> dict[str, Any]:
        """Return the settings of a client of the server that compares all keys in each round."""
        usual: dict[str, Any] = {"allow_http": True, "reconcile_hours": 0.0}
        if server.settings.client is None:
            return usual | {"token": server.settings.token or ""}
        client, secret = server.settings.client
        return usual | {"token_url": server.token_url, "client_id": client, "client_secret": secret}

    def world(self, seed: int = 1, **sizes: Any) -> World:
        none = {} if self.has_teams else {"teams": 0, "team_members": 0}
        return make_world(seed, **{"hostile": 0, **sizes, **none})


_TOKEN = {"BROKERAGE_RESO_TOKEN": TOKEN}
PROVIDERS: Mapping[str, Provider] = {
    "trestle": Provider(
        TRESTLE,
        {"default_page": 10, "max_page": 1_000, "client": CLIENT, "without": _WITHOUT_EVENTS, "token_seconds": 28_800},
        {"BROKERAGE_RESO_CLIENT_ID": CLIENT[0], "BROKERAGE_RESO_CLIENT_SECRET": CLIENT[1]},
    ),
    "bridge": Provider(
        BRIDGE,
        {"default_page": 10, "max_page": 200, "token": TOKEN, "without": _WITHOUT_EVENTS | _TEAMS},
        _TOKEN,
        has_teams=False,
    ),
    "mlsgrid": Provider(
        MLS_GRID,
        {"default_page": 500, "max_page": 5_000, "token": TOKEN, "without": _WITHOUT_EVENTS | _TEAMS},
        _TOKEN,
        ("--system", SYSTEM),
        has_teams=False,
    ),
    "spark": Provider(
        SPARK,
        {"default_page": 10, "max_page": 1_000, "token": TOKEN, "without": _WITHOUT_EVENTS | _TEAMS, "paging": "token"},
        _TOKEN,
        has_teams=False,
    ),
    "generic": Provider(NUMBERED, {"paging": "token", "token": TOKEN}, _TOKEN),
}


# What follows from a limit is waiting, up to a minute at a time.
_WITHOUT_LIMITS = "[dialect.limits]\n" + "".join(f"{name} = 0\n" for name in SourceLimits.__struct_fields__)


def provider_replica(
    name: str, bench: Bench, server: ResoServer, folder: Path, *, is_limited: bool = False
) -> ReplicaProcess:
    """Return the replication from a provider's server by the command, with the profile and what its guide names.

    The limits of the profile count with `is_limited`.
    """
    given = dict(PROVIDERS[name].client) | {"BROKERAGE_RESO_PAGE_SIZE": "1000", "BROKERAGE_RESO_VERIFY_HOURS": "0"}
    if server.settings.client is not None:
        given["BROKERAGE_RESO_TOKEN_URL"] = server.token_url
    map_text = COMPANY_MAP if is_limited else COMPANY_MAP + _WITHOUT_LIMITS
    return ReplicaProcess(bench, server, folder, ("--profile", name, *PROVIDERS[name].options), given, map_text)
