"""`brokerage openapi`: print the document that describes the API."""

from __future__ import annotations

import sys

import rich_click as click

from brokerage.examples import ending
from service.openapi.document import encoded_document


@click.command(epilog=ending("brokerage openapi > openapi.json", exits="0 printed, 2 wrong usage"))
def openapi() -> None:
    """Print the OpenAPI document, as `/v1/openapi.json` serves it."""
    sys.stdout.buffer.write(encoded_document())
