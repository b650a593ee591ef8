"""The settings of `brokerage pull`, as the client declares them with its options."""

from dataclasses import make_dataclass

from brokerage_feed.pull.pull_settings import PULL_SETTINGS
from cluster.settings import setting

PullSettings = make_dataclass(
    "PullSettings",
    [
        (
            str(declared.name),
            type(declared.default),
            setting(declared.variable, declared.default, declared.help or "", secret=declared.is_secret),
        )
        for declared in PULL_SETTINGS
    ],
    frozen=True,
    namespace={"__doc__": "The API key, retries and intervals of `brokerage pull`."},
)
