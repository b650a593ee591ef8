"""`/exports/{resource}` and its files: copies of whole companies that were published beforehand (decision 49)."""

from http import HTTPStatus
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from aiohttp.payload import Payload

from mappings.fields import View
from mappings.resource import Resource
from service.errors import InvalidRequest, NotLoaded
from service.exports.byte_ranges import requested_slice
from service.exports.errors import FilesForbidden, NotPublished
from service.exports.file_audit import record_download
from service.exports.file_headers import entity_tag, validators
from service.exports.manifest import Manifest, PublishedFile
from service.exports.publication_chain import chained_files, token_position
from service.exports.publications import Delivery, FoundFile, Publications
from service.exports.whole_company import company_view
from service.feed import token
from service.feed.operations.snapshot import resource_from_path
from service.feed.parameters import FeedTokens
from service.feed.published_mark import published_mark
from service.feed.token import FeedPosition
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import FeedView
from service.http.responses import json_response
from service.keys.authentication import authenticate, bearer_tokens
from service.keys.record import ApiKey
from service.limits.admission import RequestKind
from service.operation import Operation
from service.parameters.groups import ParentScope
from service.request_context import RequestContext
from service.scope import COMPANY_PARAMETER
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION


class ExportParameters(ParentScope):
    """Parameters of a manifest and of its files: the company."""


class ManifestParameters(ExportParameters):
    """Parameters of a manifest: also a token, for the changes since."""

    since = FeedTokens("A token of yours that covers the resource: the files of changes that lead from it to `token`.")


class _File(msgspec.Struct):
    href: str
    format: str
    bytes: int
    records: int
    sha256: str
    last: str
    table: str


class _ManifestResponse(msgspec.Struct):
    resource: str
    company: str
    token: str
    as_of: str
    published: str
    schema: str
    records: int
    digest: str
    files: list[_File]
    changes: list[_File] | None


async def show_manifest(call: RequestContext) -> web.Response:
    """List the published files of a resource.

    They hold all records of one company at one moment; changes continue from the token."""
    resource = resource_from_path(call)
    company = _require_readable(call, resource)
    publications = call.services.publications
    manifest = None if publications is None else await publications.latest(company, resource.alias)
    if publications is None or manifest is None:
        raise NotPublished(resource.alias)
    view = FeedView(call)
    position = await _require_current(call, resource, manifest)
    text = await call.services.tokens.seal(token.encode_token(view.fingerprint, {resource: position}))
    changes = await _changes(call, resource, publications, manifest)
    return json_response([msgspec.json.encode(_response(call, manifest, text, changes))])


async def _changes(
    call: RequestContext, resource: Resource, publications: Publications, latest: Manifest
) -> list[PublishedFile] | None:
    """Return the files of changes that lead from the client's token to the latest publication, None without any."""
    if (sent := call.parameters["since"]) is None:
        return None
    try:
        opened = [await call.services.tokens.open(each, "since") for each in sent]
    except FeedTokenExpired:
        return None
    tokens = token.decode_tokens(opened, "since")
    if (position := tokens.positions.get(resource)) is None:
        raise InvalidRequest.of("since", f"the token does not cover {resource.alias}.")
    if tokens.views != {FeedView(call).fingerprint}:
        return None
    view = company_view(call.services, call.directory, latest.company)
    return await chained_files(publications, view, resource, latest, position)


async def download_file(call: RequestContext) -> web.Response:
    """Download a published file.

    Ranges resume a download that was cut, with the ETag in If-Range. Files in an object store are redirected to."""
    resource = resource_from_path(call)
    company = _require_readable(call, resource)
    publications, name = call.services.publications, call.path["file"]
    found = None if publications is None else await publications.find(company, resource.alias, name)
    if publications is None or found is None:
        raise NotPublished(resource.alias)
    position = await _require_current(call, resource, found.manifest)
    return await _send(call, resource, publications, found, position.sequence)


def _require_readable(call: RequestContext, resource: Resource) -> str:
    """Return the company of a request that may read all of its files; raise InvalidRequest or FilesForbidden."""
    withheld = any(field.group in call.withheld for field in resource.view(View.INDEX))
    if withheld or (call.display and resource.address):
        raise FilesForbidden(resource.alias)
    if (company := call.scope.single_company) is None:
        raise InvalidRequest.of(COMPANY_PARAMETER, "name one company: each has files of its own.")
    return company


async def _require_current(call: RequestContext, resource: Resource, manifest: Manifest) -> FeedPosition:
    """Return the position of a manifest's token; raise NotPublished if changes cannot continue from it."""
    mark = await published_mark(call, resource)
    if mark is None:
        raise NotLoaded(resource.title)
    view = company_view(call.services, call.directory, manifest.company)
    position = await token_position(view, resource, manifest.token)
    if position is None or position.is_expired(mark):
        raise NotPublished(resource.alias)
    return position


def _response(
    call: RequestContext, manifest: Manifest, text: str, changes: list[PublishedFile] | None
) -> _ManifestResponse:
    root = call.url.path.rstrip("/")
    sent = {name: value for name in _DOWNLOAD.fields if (value := call.parameters.get(name)) is not None}
    query = f"?{urlencode(sent)}" if sent else ""

    def listed(file: PublishedFile) -> _File:
        href = f"{root}/{file.name}{query}"
        return _File(href, file.format, file.bytes, file.records, file.sha256, file.last, file.table)

    return _ManifestResponse(
        resource=manifest.resource,
        company=manifest.company,
        token=text,
        as_of=manifest.as_of,
        published=manifest.published,
        schema=manifest.schema,
        records=manifest.records,
        digest=manifest.digest,
        files=[*map(listed, manifest.files)],
        changes=None if changes is None else [*map(listed, changes)],
    )


async def _send(
    call: RequestContext, resource: Resource, publications: Publications, found: FoundFile, sequence: int
) -> web.Response:
    services, headers = call.services, validators(found.file)
    part = requested_slice(call.headers, entity_tag(found.file), found.file.bytes)
    if part.status == HTTPStatus.NOT_MODIFIED:
        return web.Response(status=part.status, headers=headers)
    slot = services.admission.lane(RequestKind.DOWNLOAD).slot(call.key_id)
    delivery = Delivery(part, headers, slot, services.sends.limits, call.is_head)
    try:
        response = await publications.storage.deliver(found, delivery)
        try:
            await record_download(call, resource, publications, found, sequence)
        except BaseException:
            # It is not sent, and may hold a file and a slot.
            if isinstance(response.body, Payload):
                await response.body.close()
            raise
    except FileNotFoundError:
        raise NotPublished(resource.alias) from None
    CURRENT_OBSERVATION.get().rows = found.file.records
    return response


class ExportOperation(Operation):
    """An operation below `/exports`: the key may be a bearer token, which programs keep from hosts they are led to."""

    async def _authenticated(self, request: web.Request, services: Services) -> ApiKey:
        strangers = services.admission.lane(RequestKind.STRANGER)
        return await authenticate(request, services.keys, strangers, allow_bearer=bool(bearer_tokens(request)))


_DOWNLOAD = ExportParameters()
EXPORT_OPERATIONS: tuple[Operation, ...] = (
    ExportOperation("/exports/{resource}", ManifestParameters(), show_manifest, kind=RequestKind.SHOW),
    ExportOperation("/exports/{resource}/{file}", _DOWNLOAD, download_file, kind=RequestKind.SHOW),
)
