"""`brokerage openapi`: print the OpenAPI document."""

import sys

import rich_click as click

from brokerage.help import epilog
from service.capabilities import installed_capabilities
from service.openapi.document import encoded_document


@click.command(epilog=epilog("brokerage openapi > openapi.json", exits="0 success, 2 usage error"))
def openapi() -> None:
    """Print the OpenAPI document that `/v1/openapi.json` serves."""
    sys.stdout.buffer.write(encoded_document(installed_capabilities()))
