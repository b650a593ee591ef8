"""`console`: the page for operators on the port of metrics, and what it shows of the keys in use."""

from service.capability import Capability
from service.console.consumers import ConsumerRegistry
from service.console.overview import add_console
from service.services import Services
from service.telemetry.logs import RequestListener


def _listens(services: Services) -> RequestListener:
    registry = ConsumerRegistry()
    services.provide(ConsumerRegistry, registry)
    return registry.add


CAPABILITY = Capability("console", listens=_listens, operators=add_console)
