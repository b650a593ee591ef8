"""The settings of deliveries, for the process that sends them and the commands that keep subscriptions."""

from dataclasses import dataclass

from cluster.settings import SettingError, setting
from service.settings import CapabilitySettings

_SECONDS = "BROKERAGE_DELIVER_SECONDS"
# A share is taken over 30 s after the last sign of its process; a delivery has to have ended by then.
MAX_SECONDS = 15.0


@dataclass(frozen=True)
class DeliverSettings(CapabilitySettings):
    """Deliveries to subscriptions (`brokerage deliver`)."""

    seconds: float = setting(_SECONDS, 10.0, "Time in which the address of a subscription has to answer a delivery.")
    allow_private: bool = setting(
        "BROKERAGE_DELIVER_ALLOW_PRIVATE",
        default=False,
        note="Deliver also to addresses of private networks and of this host.",
    )

    def __post_init__(self) -> None:
        """Raise SettingError for a time in which no answer, or no other process, could be waited for."""
        if not 0 < self.seconds <= MAX_SECONDS:
            raise SettingError(f"{_SECONDS} is {self.seconds:g}: use more than 0, and at most {MAX_SECONDS:g}.")
