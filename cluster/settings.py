"""Settings from environment variables, declared as dataclass fields and read once at start."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

Settings = TypeVar("Settings")

# User and password in an address.
_CREDENTIALS = re.compile(r"//[^/@]*@")
# Prefix of all settings except ELASTICSEARCH_URL.
_PREFIX = "BROKERAGE_"
# Variables that Kubernetes adds to each container for a service whose name begins with `brokerage-`.
_KUBERNETES_SERVICE = re.compile(r".*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)")
_ADDRESS_OF_SERVICE = re.compile(r"(?:tcp|udp|sctp)://.*")
_WANTED = {int: "a whole number", float: "a number", bool: "true or false"}


class SettingError(ValueError):
    """A setting has an invalid value; the message names the variable."""


def setting(variable: str, default: object, note: str, *, secret: bool = False) -> Any:
    """Declare a dataclass field that is read from an environment variable.

    `VARIABLE_FILE` can name a file with the value instead, the convention for container secrets.
    """
    return field(default=default, repr=not secret, metadata={"variable": variable, "note": note, "secret": secret})


def declared_settings(kind: type[Any]) -> list[Field[Any]]:
    """Return the fields of `kind` that are read from the environment."""
    return [declared for declared in fields(kind) if "variable" in declared.metadata]


def load_settings(kind: type[Settings], environ: Mapping[str, str]) -> Settings:
    """Build settings of `kind` from the environment; raise SettingError for the first invalid value."""
    types = get_type_hints(kind)
    values = {}
    for declared in declared_settings(kind):
        text = setting_text(declared.metadata["variable"], environ)
        if text is not None:
            values[declared.name] = _convert(declared.metadata["variable"], text, types[declared.name])
    return kind(**values)


def setting_text(variable: str, environ: Mapping[str, str]) -> str | None:
    """Return the text of a variable, or of the file that it names; None if neither is set. Raises SettingError."""
    if variable in environ:
        return environ[variable]
    path = environ.get(f"{variable}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{variable}_FILE names {path}, which cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{variable}_FILE names {path}, which is not valid UTF-8.") from error


def _convert(variable: str, text: str, kind: Any) -> object:
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        wanted = _WANTED.get(kind) or f"one of {', '.join(get_args(kind) or kind)}"
        raise SettingError(f"{variable}={text!r} is not valid: use {wanted}.") from error


def unknown_settings(environ: Mapping[str, str], kinds: Iterable[type[Any]]) -> dict[str, str | None]:
    """Return variables with the prefix of settings that none of these kinds declares, each with the closest setting."""
    # Compared without the prefix, which would make any two names similar.
    known = {
        declared.metadata["variable"].removeprefix(_PREFIX) for kind in kinds for declared in declared_settings(kind)
    }
    found: dict[str, str | None] = {}
    for name in sorted(environ):
        short = name.removeprefix(_PREFIX).removesuffix("_FILE")
        if not name.startswith(_PREFIX) or short in known or _is_kubernetes_service(name, environ[name]):
            continue
        near = get_close_matches(short, sorted(known), n=1)
        found[name] = _PREFIX + near[0] if near else None
    return found


def _is_kubernetes_service(name: str, value: str) -> bool:
    return bool(
        _KUBERNETES_SERVICE.fullmatch(name) or (name.endswith("_PORT") and _ADDRESS_OF_SERVICE.fullmatch(value))
    )


@dataclass(frozen=True)
class DescribedSetting:
    variable: str
    value: str
    origin: str
    note: str


def describe_settings(kind: type[Any], environ: Mapping[str, str]) -> Iterator[DescribedSetting]:
    """Yield every setting of `kind` with its value, origin and description. Secrets are masked."""
    values = load_settings(kind, environ)
    for declared in declared_settings(kind):
        variable = declared.metadata["variable"]
        value = getattr(values, declared.name)
        origin = "environment" if variable in environ else "file" if f"{variable}_FILE" in environ else "default"
        yield DescribedSetting(
            variable, _shown(value, secret=declared.metadata["secret"]), origin, declared.metadata["note"]
        )


def _shown(value: object, *, secret: bool) -> str:
    if secret and value:
        return "********"
    text = (
        ",".join(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else str(value)
    )
    return _CREDENTIALS.sub("//********@", text)
