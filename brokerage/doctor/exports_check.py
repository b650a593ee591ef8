"""The check of `brokerage doctor` of published files: whether the service can read them, and sign URLs of a store."""

from service.errors import EngineUnavailable
from service.exports.stores import open_publications
from service.health.checks import Finding, FindingState
from service.settings import ServiceSettings

_SUBJECT = "published files"


async def exports_finding(settings: ServiceSettings) -> Finding:
    """Return whether BROKERAGE_EXPORTS can be read. A failure is a warning: consumers take snapshots."""
    publications = open_publications(settings)
    if publications is None:
        return Finding(subject=_SUBJECT, detail="off (BROKERAGE_EXPORTS)")
    try:
        await publications.storage.check()
    except OSError as error:
        return _problem(f"{settings.exports}: {error.strerror or error}.")
    except EngineUnavailable as error:
        return _problem(error.reason)
    return Finding(subject=_SUBJECT, detail=f"{settings.exports} can be read")


def _problem(detail: str) -> Finding:
    return Finding(
        subject=_SUBJECT,
        state=FindingState.WARNING,
        problem="cannot be read",
        detail=detail,
        remedy="Is BROKERAGE_EXPORTS right, may the service's user read it, and has `brokerage index publish` run? See "
        "docs/operating.md, Published files.",
    )
