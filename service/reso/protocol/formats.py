"""The formats of responses, and which of them a client gets by `$format` or `Accept` (OData 4.01, section 8.2.1)."""

from functools import lru_cache
from typing import NamedTuple

from service.errors import ApiError, ParameterFault
from service.http.negotiation import JSON, MediaRange, media_ranges
from service.reso.protocol.option_names import FORMAT

XML = "application/xml"
ACCEPT = "Accept"
_SHORT_NAMES = {"json": JSON, "xml": XML}
# Parameters of JSON with the values that hold for every response; each has the prefix `odata.` in OData 4.0.
_ALWAYS = {
    "streaming": {"true", "false"},
    "exponentialdecimals": {"true", "false"},
    "ieee754compatible": {"false"},
    "charset": {"utf-8"},
}


class Format(NamedTuple):
    """A media type, and for JSON how much OData metadata it has: `minimal`, the default of OData, or `none`."""

    media_type: str
    metadata: str = ""

    def __str__(self) -> str:
        """Return the media type with its parameter."""
        return self.media_type + (f";odata.metadata={self.metadata}" if self.metadata else "")

    @property
    def content_type(self) -> str:
        """The value of `Content-Type`, without what is the default of OData."""
        return self.media_type if self == JSON_WITH_METADATA else str(self)

    def fits(self, accepted: MediaRange) -> bool:
        """Whether a media range includes this format."""
        family = self.media_type.partition("/")[0]
        is_of_type = accepted.media_type in {self.media_type, f"{family}/*", "*/*"}
        return is_of_type and all(self._has(name, value) for name, value in accepted.parameters)

    def _has(self, name: str, value: str) -> bool:
        if (name := name.removeprefix("odata.")) == "metadata":
            return value == self.metadata
        return value in (_ALWAYS.get(name, ()) if self.media_type == JSON else {"utf-8"} if name == "charset" else ())


JSON_WITH_METADATA, JSON_WITHOUT_METADATA = Format(JSON, "minimal"), Format(JSON, "none")
# The best first.
DATA_FORMATS = (JSON_WITH_METADATA, JSON_WITHOUT_METADATA)
METADATA_FORMATS = (Format(XML), Format(JSON))


class NotAcceptable(ApiError):
    """None of the formats that the client accepts."""

    status = 406
    code = "not-acceptable"
    title = "Not acceptable"

    def __init__(self, parameter: str, offered: tuple[Format, ...]) -> None:
        """Name the option or header, and the formats that there are."""
        names = " or ".join(
            each.media_type + (f";odata.metadata={each.metadata}" * bool(each.metadata)) for each in offered
        )
        fault = ParameterFault(parameter, f"accepts none of the formats of this resource: ask for {names}.")
        super().__init__(str(fault), (fault,))


def negotiate_format(option: str | None, accept: str, offered: tuple[Format, ...]) -> Format:
    """Return the format for `$format`, which takes precedence, and the value of `Accept`; raise NotAcceptable.

    Without either, and for an `Accept` without a readable element, it is the first that is offered.
    """
    text = accept if option is None else _SHORT_NAMES.get(option.strip().lower(), option)
    chosen = _preferred(text, offered) if option is None or media_ranges(text) else None
    if chosen is None:
        raise NotAcceptable(ACCEPT if option is None else FORMAT, offered)
    return chosen


@lru_cache(128)
def _preferred(accept: str, offered: tuple[Format, ...]) -> Format | None:
    ranges = media_ranges(accept)
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda each: _weight(each, ranges))
    return best if _weight(best, ranges) > 0 else None


def _weight(offer: Format, ranges: tuple[MediaRange, ...]) -> float:
    """Return the weight of the most specific range that includes a format, 0 if there is none."""
    fitting = [each for each in ranges if offer.fits(each)]
    return max(fitting, key=lambda each: (-each.media_type.count("*"), len(each.parameters))).weight if fitting else 0
