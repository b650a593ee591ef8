"""Why a client gets no files: none are published, or its key may not read all of their content."""

from service.errors import ApiError, EngineUnavailable


class NotPublished(ApiError):
    """No files are published, or they are no longer served."""

    status = 404
    code = "not-published"
    title = "Not published"

    def __init__(self, resource: str) -> None:
        """Name the snapshot, which has the same content."""
        super().__init__(
            f"No current files are published for these {resource.replace('_', ' ')}. `/v1/snapshot/{resource}` has the "
            "same content."
        )


class FilesForbidden(ApiError):
    """The files hold more than the key may see."""

    status = 403
    code = "files-forbidden"
    title = "Files hold more than the key may see"

    def __init__(self, resource: str) -> None:
        """Name the snapshot, which leaves out what the key may not see."""
        super().__init__(
            "Published files hold every field of every record, and this key may not see all of them. "
            f"`/v1/snapshot/{resource}` has what it may see."
        )


class PreconditionFailed(ApiError):
    """The file is not the one that `If-Match` names."""

    status = 412
    code = "precondition-failed"
    title = "Precondition failed"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("The file does not have the ETag in If-Match. Request the manifest again.")


class RangeNotSatisfiable(ApiError):
    """The range begins after the end of the file."""

    status = 416
    code = "range-not-satisfiable"
    title = "Range not satisfiable"

    def __init__(self, size: int) -> None:
        """Name the size of the file."""
        super().__init__(
            f"The range lies outside the file, which has {size} bytes.", headers={"Content-Range": f"bytes */{size}"}
        )


class StoreUnavailable(EngineUnavailable):
    """The object store with the files does not respond, or refuses."""

    def __init__(self, reason: str) -> None:
        """Take the reason for the log; the response says only when to retry."""
        super().__init__(reason)
        self.detail = "Published files are not available at the moment. Try again shortly."
