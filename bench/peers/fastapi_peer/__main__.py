"""`python -m bench.peers.fastapi_peer --port P`: one process of uvicorn on uvloop and httptools, no access log."""

from __future__ import annotations

import argparse

import uvicorn

from bench.peers.fastapi_peer.app import app

# Longer than uvicorn's 5 seconds: in interleaved rounds a client comes back after its turn, and need not reconnect.
_KEEP_ALIVE_SECONDS = 75


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=parser.parse_args().port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


if __name__ == "__main__":
    main()
