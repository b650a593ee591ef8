"""The capabilities of the service. This is the only module that names them; removing a line removes one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from cluster.settings import SettingError, load_settings, setting_text
from service.capability import Capability
from service.settings import CapabilitySettings, ServiceSettings

WITHOUT_SETTING = "BROKERAGE_WITHOUT"

# By name: the module with its `CAPABILITY`, which is imported only if it is installed.
CAPABILITIES = {
    "changes": "service.changes.capability",
    "exports": "service.exports.capability",
    "reso": "service.reso.capability",
    "audit": "service.audit.capability",
    "compatible": "service.compatible",
    "geojson": "service.geojson",
    "history": "service.history.capability",
    "deliver": "service.deliver.capability",
    "openapi": "service.openapi.capability",
    "site": "service.site.capability",
    "console": "service.console.capability",
    "traces": "service.telemetry.tracing",
    "redis": "service.redis.capability",
}


def installed_capabilities(without: Sequence[str] = ()) -> tuple[Capability, ...]:
    """Import and return all capabilities but some; raise SettingError for an unknown name."""
    left_out = require_known_capabilities(without)
    return tuple(import_module(module).CAPABILITY for name, module in CAPABILITIES.items() if name not in left_out)


def require_known_capabilities(names: Sequence[str]) -> frozenset[str]:
    """Return the names, which a space or a comma may separate; raise SettingError for an unknown one."""
    named = frozenset(",".join(names).replace(",", " ").split())
    if unknown := sorted(named - CAPABILITIES.keys()):
        raise SettingError(f"{WITHOUT_SETTING}: {unknown[0]!r} is none of: {', '.join(CAPABILITIES)}.")
    return named


def capability_settings(environ: Mapping[str, str]) -> dict[str, type[CapabilitySettings]]:
    """Return the settings that the environment leaves in, by the names of their capabilities; raise SettingError."""
    found = installed_capabilities([setting_text(WITHOUT_SETTING, environ) or ""])
    return {capability.name: capability.settings for capability in found if capability.settings is not None}


def load_service_settings(environ: Mapping[str, str]) -> ServiceSettings:
    """Return the settings of the service and of what is installed; raise SettingError."""
    core = load_settings(ServiceSettings, environ)
    kinds = capability_settings(environ).values()
    return replace(core, of_capabilities=tuple(load_settings(kind, environ) for kind in kinds))
