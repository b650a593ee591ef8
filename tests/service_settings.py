"""Settings of the service and of its capabilities by the names of their fields, as tests state them."""

from dataclasses import fields, replace
from typing import Any

from service.capabilities import installed_capabilities
from service.settings import ServiceSettings


def with_settings(settings: ServiceSettings, **values: Any) -> ServiceSettings:
    """Return settings with some values changed, whichever class declares them."""
    core = {each.name for each in fields(ServiceSettings)}
    changed = replace(settings, **{name: values.pop(name) for name in core & values.keys()})
    kinds = [each.settings for each in installed_capabilities(changed.without) if each.settings is not None]
    own = {kind: {each.name for each in fields(kind)} for kind in kinds}  # type: ignore[arg-type]
    unknown = values.keys() - {name for names in own.values() for name in names}
    assert not unknown, unknown
    found = [
        replace(changed.of(kind), **{name: values[name] for name in names & values.keys()})  # type: ignore[type-var]
        for kind, names in own.items()
    ]
    return replace(changed, of_capabilities=tuple(found))


def service_settings(**values: Any) -> ServiceSettings:
    """Return settings with some values, all others being the default ones."""
    return with_settings(ServiceSettings(), **values)
