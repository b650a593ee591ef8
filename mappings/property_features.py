"""The features of a property that have a field in the RESO Data Dictionary, read from `reso.toml`."""

import tomllib
from importlib.resources import files


def load_property_features() -> dict[str, str]:
    """Return the field of each feature, by the feature's name in records."""
    declared = tomllib.loads(files("mappings").joinpath("reso.toml").read_text(encoding="utf-8"))
    return dict(declared["Property"]["features"])
