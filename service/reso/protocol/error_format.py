"""How requests below `/v1/reso` fail: OData errors, `OData-Version` in every response, and a longer URL limit."""

from service.http.problems import ErrorFormat
from service.reso.protocol.error_response import odata_error_response
from service.reso.protocol.odata_version import odata_version_header
from service.reso.protocol.root import MAX_RESO_URL_BYTES, is_reso_path

RESO_ERRORS = ErrorFormat(
    applies_to=is_reso_path,
    render=odata_error_response,
    headers=odata_version_header,
    max_url_bytes=MAX_RESO_URL_BYTES,
)
