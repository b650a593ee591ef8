"""`/exports/{resource}`: lists published files and sends them in any part, without work for Elasticsearch."""

import datetime as dt
from http import HTTPStatus
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from aiohttp.payload import Payload

from mappings.fields import View
from mappings.resource import Resource
from service import token
from service.errors import InvalidRequest
from service.exports.files import EXPORT_HEADERS, entity_tag, record_download, validators
from service.exports.publications import (
    Delivery,
    FilesForbidden,
    FoundFile,
    Manifest,
    NotPublished,
    Publications,
    PublishedFile,
    requested_slice,
)
from service.feed.entries import FeedView, mark_of_copy
from service.feed.parameters import FeedFilters, FeedTokens, resource_from_path
from service.http.responses import json_response
from service.keys.authentication import Credentials
from service.limits.admission import RequestKind
from service.operation import Operation
from service.parameters import ParentScope
from service.request_context import ReadSpan, RequestContext, observe
from service.scope import COMPANY_PARAMETER, CompanyDirectory, Scope, Visibility
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION, Timer
from service.token import FeedPosition, FeedTokenExpired


async def chained_files(
    publications: Publications, view: FeedView, resource: Resource, latest: Manifest, consumer: FeedPosition
) -> list[PublishedFile] | None:
    """Return the files to apply in order, None if there are none that begin at or before the consumer's position.

    A file may begin before it: changes that the consumer has applied come again in the same state.
    """
    files: list[PublishedFile] = []
    manifest: Manifest | None = latest
    end = await token_position(view, resource, latest.token)
    if end is None or not _reaches(consumer, end):
        return None
    while manifest is not None and manifest.since is not None and manifest.changes is not None:
        files[:0] = manifest.changes
        start = await token_position(view, resource, manifest.since)
        if start is None or _data(start) != _data(consumer):
            return None
        if start.sequence <= consumer.sequence:
            return files
        manifest = await publications.earlier(manifest)
    return None


def _reaches(consumer: FeedPosition, end: FeedPosition) -> bool:
    """Whether a publication is newer than a consumer of the same data."""
    return _data(consumer) == _data(end) and consumer.sequence < end.sequence


def _data(position: FeedPosition) -> tuple[int, str]:
    return position.epoch, position.epoch_id


async def token_position(view: FeedView, resource: Resource, sealed: str) -> FeedPosition | None:
    """Return the position of a publication's token, None if it is of another version or can no longer be opened."""
    try:
        opened = await view.call.services.tokens.open(sealed, "token")
        tokens = token.decode_tokens([opened], "token")
    except (FeedTokenExpired, InvalidRequest):
        return None
    # Of another version, whose content hashes cover other members.
    return tokens.positions[resource] if tokens.views == {view.fingerprint} else None


def company_view(services: Services, directory: CompanyDirectory, company: str) -> FeedView:
    """Return the view; no request of a client is behind it, so nothing is audited, limited or withheld."""
    schema = FeedFilters()
    parameters = schema.load({})
    call = RequestContext(
        services,
        Timer(),
        Scope(frozenset({company})),
        directory,
        schema,
        parameters,
        visibility=Visibility(),
        slot=services.limits.admission.limits[RequestKind.PAGE].slot(""),
    )
    return FeedView(call)


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
    publications = call.services.find(Publications)
    manifest = None if publications is None else await publications.latest(company, resource.alias)
    if publications is None or manifest is None:
        raise NotPublished(resource.alias)
    view = FeedView(call)
    position = await _require_current(call, resource, manifest)
    text = await call.services.tokens.seal(token.encode_token(view.fingerprint, {resource: position}))
    changes = await _changes(call, resource, publications, manifest)
    as_of = int(dt.datetime.fromisoformat(manifest.as_of).timestamp())
    observe(call, "files", (resource,), ReadSpan(None, manifest.as_of, as_of))
    return json_response([msgspec.json.encode(_response(call, manifest, text, changes))], EXPORT_HEADERS)


async def _changes(
    call: RequestContext, resource: Resource, publications: Publications, latest: Manifest
) -> list[PublishedFile] | None:
    """Return the files of changes that lead from the client's token to the latest publication, None without any."""
    if (sent := call.parameters["since"]) is None:
        return None
    try:
        opened = [await call.services.tokens.open(text, "since") for text in sent]
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
    publications, name = call.services.find(Publications), call.client.path["file"]
    found = None if publications is None else await publications.find(company, resource.alias, name)
    if publications is None or found is None:
        raise NotPublished(resource.alias)
    position = await _require_current(call, resource, found.manifest)
    return await _send(call, resource, publications, found, position.sequence)


def _require_readable(call: RequestContext, resource: Resource) -> str:
    """Return the company of a request that may read all of its files; raise InvalidRequest or FilesForbidden."""
    withheld = any(field.group in call.visibility.withheld for field in resource.view(View.INDEX))
    if withheld or call.visibility.hides_addresses(resource):
        raise FilesForbidden(resource.alias)
    if (company := call.scope.single_company) is None:
        raise InvalidRequest.of(COMPANY_PARAMETER, "name one company: each has files of its own.")
    return company


async def _require_current(call: RequestContext, resource: Resource, manifest: Manifest) -> FeedPosition:
    """Return the position of a manifest's token; raise NotPublished if changes cannot continue from it."""
    mark = await mark_of_copy(call, resource)
    view = company_view(call.services, call.directory, manifest.company)
    position = await token_position(view, resource, manifest.token)
    if mark is None or position is None or position.is_expired(mark):
        raise NotPublished(resource.alias)
    return position


def _response(
    call: RequestContext, manifest: Manifest, text: str, changes: list[PublishedFile] | None
) -> _ManifestResponse:
    root = call.client.url.path.rstrip("/")
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
    part = requested_slice(call.client.headers, entity_tag(found.file), found.file.bytes)
    if part.status == HTTPStatus.NOT_MODIFIED:
        return web.Response(status=part.status, headers=headers)
    slot = services.limits.admission.limits[RequestKind.DOWNLOAD].slot(call.key_id)
    delivery = Delivery(part, headers, slot, services.limits.unread.limits, call.client.is_head)
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


_DOWNLOAD = ExportParameters()
EXPORT_OPERATIONS: tuple[Operation, ...] = (
    # A bearer token too: programs keep it from hosts that they are led to, which they may not do with `x-api-key`.
    Operation(
        "/exports/{resource}", ManifestParameters(), show_manifest, RequestKind.SHOW, credentials=Credentials.BEARER
    ),
    Operation("/exports/{resource}/{file}", _DOWNLOAD, download_file, RequestKind.SHOW, credentials=Credentials.BEARER),
)
