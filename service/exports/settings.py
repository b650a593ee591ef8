"""The settings of published files, for the service that serves them and the command that writes them."""

from dataclasses import dataclass
from enum import StrEnum

from cluster.settings import SettingError, setting
from service.exports.object_store import QUICK, is_store_url, open_store
from service.settings import CapabilitySettings

_EXPORTS = "BROKERAGE_EXPORTS"
_URL_SECONDS = "BROKERAGE_EXPORTS_URL_SECONDS"
# S3 and GCS sign no longer.
_MAX_URL_SECONDS = 604_800


class ParquetNames(StrEnum):
    """How columns are named, or that there are no such files."""

    UNDERSCORED = "underscored"  # list_price
    CONTRACT = "contract"  # ListPrice
    NONE = "none"


@dataclass(frozen=True)
class ExportsSettings(CapabilitySettings):
    """Published files: where they are, how they are written and sent."""

    exports: str = setting(
        _EXPORTS,
        "",
        "Folder to which `brokerage index publish` writes files of whole companies, and from which they are served; or "
        "s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, with the package obstore.",
    )
    exports_url_seconds: int = setting(
        _URL_SECONDS,
        300,
        "Seconds after a redirect to an object store within which the download must begin.",
    )
    exports_kept: int = setting(
        "BROKERAGE_EXPORTS_KEPT", 2, "Publications of each company and resource that stay, the latest one included."
    )
    exports_hours: float = setting(
        "BROKERAGE_EXPORTS_HOURS",
        1.0,
        "Time for which a publication stays once another has replaced it, however many follow; so long a download may "
        "begin after it was listed.",
    )
    exports_parquet: ParquetNames = setting(  # noqa: RUF009 - it declares the field
        "BROKERAGE_EXPORTS_PARQUET",
        ParquetNames.UNDERSCORED,
        "Parquet next to the JSON of published files, with names of columns as list_price (underscored), as ListPrice "
        "(contract), or none. Needs the package pyarrow; without it there is none.",
    )
    downloads: int = setting("BROKERAGE_DOWNLOADS", 256, "Published files that each worker sends at a time.")

    @property
    def open_files(self) -> int:
        """Each download has its connection, the file and a second descriptor of the connection."""
        return 3 * self.downloads

    def __post_init__(self) -> None:
        """Raise SettingError if files are in a store that cannot be opened, or URLs of it cannot last so long."""
        if not 0 < self.exports_url_seconds <= _MAX_URL_SECONDS:
            allowed = f"1 to {_MAX_URL_SECONDS}, which is seven days"
            raise SettingError(f"{_URL_SECONDS} is {self.exports_url_seconds}: use {allowed}.")
        if is_store_url(self.exports):
            try:
                open_store(self.exports, QUICK)
            except ValueError as error:
                raise SettingError(f"{_EXPORTS} {error}") from error
