"""The query of a client of the compatible profile: with the pairs of its form, and without what it repeats."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote_plus

from service.errors import InvalidRequest

# The parameters that repeat the identifier in a path, by its variable. Listings and offices declare theirs.
_REPEATED = {
    "guid": frozenset({"platform_agent_id", "agent_uuid", "source_agent_id"}),
    "platform_team_id": frozenset({"platform_team_id"}),
    "platform_company_id": frozenset({"platform_company_id"}),
}


def compatible_query(query: str, form: str, path: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    """Return the encoded query of a request from its URL and its form, without pairs that have no value.

    A pair that is in both counts once. `defaults` are added if their names are missing. Raises InvalidRequest if every
    repeated identifier differs from the one in the path.
    """
    pairs = [pair for pair in dict.fromkeys((*query.split("&"), *form.split("&"))) if pair.partition("=")[2]]
    for variable, identifier in path.items():
        pairs = _without_identifier(pairs, variable, identifier)
    names = {_name(pair) for pair in pairs}
    return "&".join((*pairs, *(f"{name}={value}" for name, value in defaults.items() if name not in names)))


def _without_identifier(pairs: Sequence[str], variable: str, identifier: str) -> list[str]:
    repeated = _REPEATED.get(variable, frozenset())
    found = [pair for pair in pairs if _name(pair) in repeated]
    values = {unquote_plus(pair.partition("=")[2]).lower() for pair in found}
    if values and identifier.lower() not in values:
        raise InvalidRequest.of(_name(found[0]), "differs from the identifier in the path.")
    return [pair for pair in pairs if pair not in found]


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])
