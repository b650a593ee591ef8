"""Downloads of a company's published files by a client that only counts bytes."""

import argparse
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.client import Connection, get


@dataclass
class Downloads:
    """The files of the listings of one company."""

    given: argparse.Namespace
    targets: list[str] = field(default_factory=list)
    records: int = 0

    async def load(self, connection: Connection) -> None:
        """Read the list of files."""
        target = f"/v1/exports/listings?platform_company_id={self.given.company}"
        answer = await connection.fetch(self._request(target), keep=True)
        listed: dict[str, Any] = orjson.loads(answer.body)
        self.targets = [file["href"] for file in listed["files"] if file["format"] == "ndjson.zst"]
        self.records = listed["records"]

    async def read(self, connection: Connection) -> int:
        """Download all files, one after the other; return the bytes."""
        return sum([(await connection.fetch(self._request(target))).length for target in self.targets])

    def _request(self, target: str) -> bytes:
        return get(self.given.service, target, {"x-api-key": self.given.key})


def export_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of what says where the files are."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--service", required=True, help="where the API is, http://host:port")
    parser.add_argument("--key", required=True)
    parser.add_argument("--company", required=True)
    return parser
