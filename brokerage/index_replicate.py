"""`brokerage index replicate`: load from a RESO Web API, and follow it."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from brokerage.completion import files
from brokerage.examples import LOADING, ending
from brokerage.failures import told_plainly
from brokerage.index_load import complaint
from brokerage.index_run import AS_JSON, explained, run
from brokerage.stopping import stoppable
from cluster.settings import read
from indexer.progress import display
from indexer.reso.plan import AUTO, BY_EVENTS, BY_TIMES, Plan, read_map
from indexer.reso.replication import replicating
from indexer.reso.settings import ResoSettings

if TYPE_CHECKING:
    import indexer
    from indexer.progress import Bars, JsonLines
    from indexer.reso.account import Round


@click.command(
    epilog=ending(
        "brokerage index replicate https://mls.example.com --company acme",
        "brokerage index replicate https://mls.example.com --company acme --follow",
        exits=LOADING,
    )
)
@click.argument("url")
@click.option("--company", required=True, metavar="COMPANY", help="The company that the records are for.")
@click.option(
    "--map", "map_file", type=click.Path(path_type=Path), shell_complete=files, help="TOML file with what differs."
)
@click.option("--prefix", default="", help="Goes before every key, where two sources may have the same.")
@click.option("--time-zone", help="Of open houses where a listing names none, such as America/Los_Angeles.")
@click.option(
    "--changes",
    type=click.Choice([AUTO, BY_EVENTS, BY_TIMES]),
    default=AUTO,
    show_default=True,
    help="How changes are found; auto takes events where the source has them.",
)
@click.option("--sole", is_flag=True, help="The company has no other source: what this one lacks is deleted.")
@click.option("--once/--follow", "is_once", default=True, help="One round, or round after round until stopped.")
@AS_JSON
def replicate(  # noqa: PLR0913 - options
    *,
    url: str,
    company: str,
    map_file: Path | None,
    prefix: str,
    time_zone: str | None,
    changes: str,
    sole: bool,
    is_once: bool,
    as_json: bool,
) -> None:
    """Load listings, sold listings, agents, offices and teams from the RESO Web API at URL, and follow its changes.

    A Data Dictionary 2.0 source is read as it is; --map names what one calls otherwise. What was read is kept in
    BROKERAGE_RESO_DIR: a run that was stopped or killed is gone on with. Tokens are settings: BROKERAGE_RESO_TOKEN, or
    BROKERAGE_RESO_TOKEN_URL with BROKERAGE_RESO_CLIENT_ID and BROKERAGE_RESO_CLIENT_SECRET.
    """
    with told_plainly(), explained(), stoppable():
        settings = read(ResoSettings, os.environ)
        dictionary, declared = read_map(map_file)
        plan = Plan(url, company, dictionary, declared, prefix, time_zone, changes, sole)
        with display(as_json=as_json) as shown:
            work = partial(_replicated, plan=plan, settings=settings, shown=shown, is_once=is_once)
            done = run(work, stopped="Stopped: what was read and told stays, and the same command goes on.")
    shown.finish(done.summary)
    raise SystemExit(done.summary.exit_code)


async def _replicated(
    engine: indexer.Engine, plan: Plan, settings: ResoSettings, shown: Bars | JsonLines, *, is_once: bool
) -> Round:
    def say(sentence: str) -> None:
        shown.say(sentence if is_once else f"{time.strftime('%H:%M:%S')} {sentence}")

    async with replicating(engine, plan, settings, shown.show, say) as rounds:
        while True:
            done = await rounds.round()
            bad = (said for report in done.summary.resources if (said := complaint(report)))
            for line in (*done.lines, *done.summary.complaints, *bad):
                say(line)
            if is_once:
                return done
            await asyncio.sleep(settings.poll_seconds)
