"""The receivers of the page for partners: they apply what is signed, and refuse what is not."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import orjson
import pytest

from service.deliver.signatures import new_secret, signature
from service.site.pages import SITE_FILES

_PAGE = SITE_FILES.joinpath("text", "push.md").read_text(encoding="utf-8")
_NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"
_RUN = {"python": ("receiver.py", [sys.executable]), "javascript": ("receiver.cjs", [_NODE])}
_ENTRY = {"resource": "listings", "company": "a", "id": "L1", "sequence": 1, "time": "2026-11-22T05:50:00.123Z"}


def delivery(number: int, **entry: object) -> bytes:
    """Return the body of a delivery of one change."""
    data = {"changes": [_ENTRY | entry], "next": "AtD", "at_end": True}
    return orjson.dumps({"type": "changes", "subscription": "crm", "number": number, "since": "AtC", "data": data})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize("language", _RUN)
async def test_a_receiver_of_the_page(language: str, tmp_path: Path) -> None:
    (program,) = re.findall(rf"```{language}\n(.*?)```", _PAGE, re.DOTALL)
    (name, command), secret, port = _RUN[language], new_secret(), free_port()
    (tmp_path / name).write_text(program)
    environment = os.environ | {"SECRET": secret, "PORT": str(port), "PYTHONPATH": str(Path.cwd() / "consumer")}
    process = await asyncio.create_subprocess_exec(
        *command, tmp_path / name, env=environment, stdout=asyncio.subprocess.PIPE, process_group=0
    )
    try:
        async with aiohttp.ClientSession() as session:

            async def post(body: bytes, signed_with: str) -> int:
                at = int(time.time())
                headers = {"webhook-id": "m", "webhook-timestamp": str(at)}
                headers["webhook-signature"] = signature(signed_with, "m", at, body)
                async with session.post(f"http://127.0.0.1:{port}/hook", data=body, headers=headers) as response:
                    return response.status

            async with asyncio.timeout(120.0):
                while True:
                    try:
                        assert await post(delivery(3, content="0" * 16, record={}), secret) == 204
                        break
                    except aiohttp.ClientConnectorError:
                        await asyncio.sleep(0.1)
            assert await post(delivery(4, reason="deleted"), new_secret()) == 401
            assert await post(delivery(2, reason="deleted"), secret) == 204  # overtaken
            assert await post(delivery(4, reason="deleted"), secret) == 204
            assert await post(orjson.dumps({"type": "test", "subscription": "crm"}), secret) == 204
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # `node` may be a script that starts another
    output, _ = await process.communicate()
    assert output.decode() == "upsert L1\ndelete L1\n"
