"""Where published files are read: a folder or an object store."""

from pathlib import Path

from service.exports.export_folder import ExportFolder
from service.exports.export_store import ExportStore
from service.exports.object_store import is_store_url
from service.exports.publications import Publications
from service.settings import ServiceSettings


def open_publications(settings: ServiceSettings) -> Publications | None:
    """Return the publications at BROKERAGE_EXPORTS, None without it."""
    place = settings.exports
    if not place:
        return None
    return Publications(
        ExportStore(place, settings.exports_url_seconds) if is_store_url(place) else ExportFolder(Path(place))
    )
