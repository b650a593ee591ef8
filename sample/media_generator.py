"""Images, features and open houses. Image and feature sets are encoded once and used by many listings."""

from functools import cache
from random import Random

import msgspec
import orjson

from sample.data_files import load_table
from sample.sample_clock import DAY, format_date
from sample.seeded_random import between, pick, seeded_random

_PHOTO_SETS = 1024
_FEATURE_SETS = 256


class MediaVocabulary(msgspec.Struct, frozen=True):
    """What images, features and open houses are described with."""

    shots: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[int, int], ...]
    features: dict[str, tuple[str, ...]]
    attributes: tuple[tuple[str, str], ...]
    open_house_hours: tuple[tuple[str, str], ...]
    open_house_comments: tuple[str | None, ...]


class MediaGenerator:
    """The sets of one source."""

    def __init__(self, seed: int) -> None:
        """Encode all sets."""
        chance = seeded_random(seed, "media")
        self.photo_sets = [_encoded(_photos(chance)) for _ in range(_PHOTO_SETS)]
        self.feature_sets = [_encoded(_features(chance)) for _ in range(_FEATURE_SETS)]
        self.attribute_sets = [_encoded(_attributes(chance)) for _ in range(32)]

    def listing_fields(self, chance: Random) -> dict[str, object]:
        """Return the members about media and features that listings and sold listings share."""
        tour = f"https://tours.example.com/{chance.getrandbits(48):012x}" if chance.random() < 0.2 else None
        return {
            "VirtualTourURL": tour,
            "PropertyFeatures": pick(chance, self.feature_sets),
            "CompanyListingAttributes": pick(chance, self.attribute_sets),
            "ListingImages": pick(chance, self.photo_sets),
        }


def generate_open_houses(chance: Random, first: int) -> list[dict[str, object]]:
    """Return one or two open houses of a listing, within ten days from the moment `first` on."""
    return [_open_house(chance, first + between(chance, 1, 10) * DAY) for _ in range(between(chance, 1, 2))]


def open_house_times(chance: Random, moment: int) -> dict[str, object]:
    """Return day and hours of an open house, all that a sold listing keeps of it."""
    start, end = pick(chance, _vocabulary().open_house_hours)
    return {"Date": format_date(moment), "StartTime": start, "EndTime": end}


@cache
def _vocabulary() -> MediaVocabulary:
    return load_table("media", MediaVocabulary)


def _open_house(chance: Random, moment: int) -> dict[str, object]:
    virtual = chance.random() < 0.2
    return open_house_times(chance, moment) | {
        "VirtualOpenHouseYN": virtual,
        "VirtualOpenHouseURL": f"https://tours.example.com/live/{chance.getrandbits(48):012x}" if virtual else None,
        "Comment": pick(chance, _vocabulary().open_house_comments),
    }


def _encoded(value: object) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(value))


def _photos(chance: Random) -> list[dict[str, object]]:
    folder = f"https://photos.example.com/{chance.getrandbits(40):010x}"
    shots = _vocabulary().shots[: 6 + int(chance.random() ** 3 * 9)]
    return [_photo(f"{folder}/{place:02d}", shot, chance) for place, shot in enumerate(shots, 1)]


def _photo(address: str, shot: tuple[str, str], chance: Random) -> dict[str, object]:
    title, caption = shot
    width, height = pick(chance, _vocabulary().sizes)
    links = {f"{size}URL": f"{address}-{size.lower()}.jpg" for size in ("Full", "Gallery", "Raw", "Small", "Thumb")}
    return links | {
        "Title": title,
        "Caption": caption if chance.random() < 0.5 else None,
        "Description": None,
        "MimeType": "image/jpeg",
        "IsMainListingImage": address.endswith("/01"),
        "Width": width,
        "Height": height,
    }


def _features(chance: Random) -> list[dict[str, object]]:
    chosen = [name for name in _vocabulary().features if chance.random() < 0.5]
    return [_feature(name, chance) for name in chosen]


def _feature(name: str, chance: Random) -> dict[str, object]:
    known = _vocabulary().features[name]
    values = chance.sample(known, between(chance, 1, min(3, len(known))))
    return {"PropertyFeatureName": name, "PropertyFeatureValues": sorted(values)}


def _attributes(chance: Random) -> list[dict[str, object]]:
    chosen = [pair for pair in _vocabulary().attributes if chance.random() < 0.2]
    return [{"AttributeId": number, "AttributeName": name} for number, name in chosen]
