"""What the guide says a client does is what the service and the client do."""

import asyncio
import os
import re
import subprocess
import sys
from hashlib import sha256

from brokerage_feed.record_hashes import RunningDigest, bucket_of, record_hash
from mappings.stored_document import Digest
from service.site.pages import PAGE_BY_PATH
from tests.consumer.conftest import ServedStandIn
from tests.consumer.stand_in_service import KEY

TEXT = PAGE_BY_PATH["/docs/copy"].text
DIGESTS = PAGE_BY_PATH["/docs/changes"].text
_ROW = re.compile(r"(?m)^\| `(\w+)` \| `([0-9a-f]{16})` \| `([0-9a-f]{4})` \| `([0-9a-f]{16})` \|$")


def test_the_numbers_of_the_guide_are_those_of_client_and_service() -> None:
    ours, theirs, rows = RunningDigest(), Digest(), _ROW.findall(DIGESTS)
    for identifier, content, bucket_line, hash_line in rows:
        assert f"{bucket_of(identifier):04x}" == bucket_line == sha256(identifier.encode()).hexdigest()[:4]
        assert f"{record_hash(identifier, content):016x}" == hash_line
        ours.add(identifier, content)
        number = int(content, 16)
        theirs.add(identifier, number - 2**64 if number >= 2**63 else number)
    assert len(rows) == 2
    assert f"| both | | | `{ours.digest}` |" in DIGESTS
    assert ours.digest == f"{theirs.total:016x}"


async def test_the_program_of_the_guide_runs(served: ServedStandIn) -> None:
    [program] = re.findall(r"(?ms)^```python copy\.py\n(.*?)^```$", TEXT)
    environment = os.environ | {"API": served.url, "KEY": KEY}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, env=environment
    )
    printed, _ = await process.communicate()
    assert printed.decode() == "listings 7 7\nagents 7 7\n"


async def test_the_program_that_follows_runs(served: ServedStandIn) -> None:
    [program] = re.findall(r"(?ms)^```python follow\.py\n(.*?)^```$", TEXT)
    environment = os.environ | {"API": served.url, "KEY": KEY, "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"7 listings 7\n"
        served.stand_in.drop("listings", "l3")
        assert await process.stdout.readline() == b"l3 deleted\n"
    finally:
        process.kill()
        await process.communicate()
