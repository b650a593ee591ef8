"""Whole rounds into an index: changes as consumers see them, lost mirrors, two sources, other maps, privacy."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from indexer.errors import SourceError
from indexer.report import ignore
from indexer.reso.events import Events
from indexer.reso.plan import Plan, read_map
from indexer.reso.replication import replicating
from indexer.reso.settings import ResoSettings
from indexer.status import status
from mappings import AGENT, LISTING, RESOURCES, SOLD_LISTING
from mappings.dictionary import Dictionary, read_dictionary
from tests.reso.expecting import ACME, differences
from tests.reso.mirroring import put, small_world
from tests.reso.people import CANARY
from tests.reso.replicating import COMPANY_RECORD
from tests.reso.schema import PRIVATE
from tests.reso.serving import serving
from tests.reso.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from indexer.reso.account import Round
    from indexer.reso.replication import Rounds
    from tests.indexer.conftest import Bench
    from tests.reso.server import ResoServer

DICTIONARY = read_dictionary()


@dataclass
class Into:
    """The replications of a server into one corner of the engine."""

    bench: Bench
    server: ResoServer
    folder: Path

    @asynccontextmanager
    async def rounds(
        self, dictionary: Dictionary = DICTIONARY, *, settings: dict[str, Any] | None = None, **plan: Any
    ) -> AsyncIterator[Rounds]:
        """Open a replication; options are fields of Plan."""
        given: dict[str, Any] = {
            "rate": 10_000.0,
            "page_size": 50,
            "folder": str(self.folder / "replicas"),
            "removal_limit": 1.0,
        }
        made = Plan(self.server.url, ACME, dictionary, **{"declared": COMPANY_RECORD, **plan})
        engine, wanted = self.bench.engine(dead_letter_limit=1.0), ResoSettings(**(given | (settings or {})))
        async with replicating(engine, made, wanted, ignore, lambda _: None) as rounds:
            yield rounds

    async def round(self, *arguments: Any, **options: Any) -> Round:
        """Make one round."""
        async with self.rounds(*arguments, **options) as rounds:
            return await rounds.round()

    async def stamps(self) -> dict[str, Any]:
        """Return which change each record is, as consumers who follow see it."""
        found = {}
        for resource in RESOURCES:
            for identifier, document in (await self.bench.served(resource)).items():
                found[f"{resource.alias} {identifier}"] = document["sequence"]
        return found

    async def changed(self, before: dict[str, Any]) -> set[str]:
        """Return the resources of which consumers see changed records."""
        return {name for name, sequence in (await self.stamps()).items() if before.get(name) != sequence}

    async def live(self) -> list[str]:
        """Return the identifiers of the listings that are served."""
        return sorted(key for key, each in (await self.bench.served(LISTING)).items() if not each["deleted"])

    def forget(self) -> None:
        """Lose the mirror."""
        shutil.rmtree(self.folder / "replicas")


async def test_a_change_reaches_consumers_with_all_that_shows_it_and_a_mass_touch_does_not(
    bench: Bench, tmp_path: Path
) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        async with into.rounds() as rounds:
            assert (await rounds.round()).summary.exit_code == 0
            assert await differences(bench, server) == {}
            before = await into.stamps()
            for entity in ("Property", "Member", "Office", "Teams", "TeamMembers", "Media", "OpenHouse"):
                server.touch(entity)
            await rounds.round()
            assert await into.changed(before) == set()
            assert await differences(bench, server) == {}
            first, second, *_ = await into.live()
            photo = {
                "ResourceName": "Property",
                "MediaCategory": "Photo",
                "MediaURL": "https://media.example.com/1.jpg",
            }
            put(server, "Media", "photo", **photo, ResourceRecordKey=first)
            await rounds.round()
            before = await into.stamps()
            server.patch("Media", "photo", ResourceRecordKey=second)
            await rounds.round()
            moved = {name.split()[1] for name in await into.changed(before)}
            assert moved == {first, second}
            office = server.get("Member", server.keys("Member")[0])["OfficeKey"]  # type: ignore[index]
            server.patch("Office", office, OfficeName="Renamed Realty", OfficeAddress1="7 Other Street")
            before = await into.stamps()
            await rounds.round()
            assert {name.split()[0] for name in await into.changed(before)} == {"offices", "agents"}
            assert await differences(bench, server) == {}
            # A round in which nothing changed says nothing and asks for little.
            server.ledger.clear()
            assert (await rounds.round()).lines == []
            assert set(server.ledger.requests) == {"EntityEvent"}
            assert len(server.ledger.visits) <= 5


async def test_an_entity_without_events_is_followed_by_times_and_lost_events_are_healed(
    bench: Bench, tmp_path: Path
) -> None:
    async with serving(world=small_world()) as server:
        for sequence in server.keys("EntityEvent"):
            if server.get("EntityEvent", sequence)["ResourceName"] == "Media":  # type: ignore[index]
                server._tables["EntityEvent"].remove(sequence)
        into = Into(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.round()
            tell, server.events.tell = server.events.tell, lambda *_: None  # type: ignore[method-assign]
            server.patch("Media", server.keys("Media")[0], MediaURL="https://media.example.com/new.jpg")
            await rounds.round()
            assert await differences(bench, server) == {}
            server.patch("Property", server.keys("Property")[0], PublicRemarks="No event")
            server.delete("Property", server.keys("Property")[1])
            server.events.tell = tell  # type: ignore[method-assign]
            await rounds.round()
            assert await differences(bench, server) != {}
        await into.round(settings={"reconcile_hours": 0.0})
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("dies", [False, True])
async def test_what_came_between_a_load_by_times_and_the_first_mark_of_events_is_found(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool
) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round(changes="timestamps")
        server.patch("Property", server.keys("Property")[0], PublicRemarks="In between")
        server.delete("Property", server.keys("Property")[1])
        if dies:
            with monkeypatch.context() as patched:
                patched.setattr(Events, "mark", dying_behind(Events.mark))
                with pytest.raises(KeyboardInterrupt):
                    await into.round()
        await into.round(settings={"event_margin": 0})
        assert await differences(bench, server) == {}


def dying_behind(work: Callable[..., None]) -> Callable[..., None]:
    """Return the same work with an end behind it as a kill makes one."""

    def die(*arguments: Any) -> None:
        work(*arguments)
        raise KeyboardInterrupt

    return die


async def test_too_many_removals_are_refused_and_all_else_is_told(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world(properties=30)) as server:
        into = Into(bench, server, tmp_path)
        options: dict[str, Any] = {"changes": "timestamps", "settings": {"reconcile_hours": 0.0, "removal_limit": 0.05}}
        await into.round(**options)
        keys = server.keys("Property")
        for key in keys[:11]:
            server.delete("Property", key)
        server.patch("Property", keys[-1], City="Elsewhere")
        done = await into.round(**options)
        assert done.summary.exit_code == 1
        assert done.summary.complaints == [
            "Property: the source lacks 11 of 30 known records, more than the share of 0.05 that "
            "BROKERAGE_RESO_REMOVAL_LIMIT allows. None was removed."
        ]
        assert "Elsewhere" in str(await bench.served(LISTING)) + str(await bench.served(SOLD_LISTING))
        assert {kind.split()[1] for kind in await differences(bench, server)} == {"surplus"}
        (told,) = {each.name: each for state in await status(bench.engine()) for each in state.sources}.values()
        assert (told.complaint, told.records["Property"], told.due) == (done.summary.complaints[0], 30, 0)
        # It is told until it is mended, also by a run that need not compare.
        assert (await into.round(changes="timestamps", settings={"removal_limit": 0.05})).summary.exit_code == 1
        assert (await into.round(changes="timestamps", settings={"removal_limit": 0.5})).summary.exit_code == 0
        assert await differences(bench, server) == {}


async def test_a_run_that_was_killed_between_telling_and_settling_tells_the_same(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round()
        server.patch("Property", server.keys("Property")[0], PublicRemarks="New")
        server.delete("Member", server.keys("Member")[0])
        with monkeypatch.context() as patched:
            patched.setattr("indexer.reso.telling.Telling._settle", _killed)
            with pytest.raises(KeyboardInterrupt):
                await into.round()
        assert await differences(bench, server) == {}
        before = await into.stamps()
        await into.round()
        assert await into.changed(before) == set()
        assert await differences(bench, server) == {}


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


async def test_a_lost_mirror_is_made_anew_over_what_is_live(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round()
        keys = await into.live()
        # What is live is newer than anything that the source will say.
        await into.round()
        into.forget()
        for key in keys[:3]:
            server.patch("Property", key, City="Elsewhere")
            server._tables["Property"].rows[key].record["ModificationTimestamp"] = "2020-01-01T00:00:00.000Z"
        server.delete("Property", keys[-1])
        # What an event names and the source does not have goes at once: none is looked at here.
        await into.round(settings={"event_margin": 0})
        found = await differences(bench, server)
        assert [(kind.split()[1], names) for kind, names in found.items()] == [("surplus", [keys[-1]])]
        await into.round(is_sole=True, settings={"event_margin": 0})
        assert await differences(bench, server) == {}


async def test_a_sole_source_that_lacks_too_much_deletes_nothing(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round()
        into.forget()
        for entity in ("Property", "Member"):
            for key in server.keys(entity):
                server.delete(entity, key)
        refused = await into.round(is_sole=True, settings={"event_margin": 0, "removal_limit": 0.05})
        assert any("They stay." in complaint for complaint in refused.summary.complaints)
        assert refused.summary.exit_code == 1
        assert len(await bench.served(LISTING)) > 0
        await into.round(is_sole=True, settings={"event_margin": 0, "removal_limit": 1.0})
        assert await differences(bench, server) == {}


async def test_two_sources_of_one_company_are_kept_apart_by_a_prefix(bench: Bench, tmp_path: Path) -> None:
    async with serving() as one, serving() as other:
        for server, city in ((one, "Here"), (other, "There")):
            put(server, "Property", "K", City=city, StandardStatus="Active", PropertyType="Residential")
        await Into(bench, one, tmp_path).round(prefix="a-")
        await Into(bench, other, tmp_path).round(prefix="b-")
        assert {key: each["record"]["City"] for key, each in (await bench.served(LISTING)).items()} == {
            "a-K": "Here",
            "b-K": "There",
        }
        other.delete("Property", "K")
        await Into(bench, other, tmp_path).round(prefix="b-", settings={"reconcile_hours": 0.0})
        assert await Into(bench, other, tmp_path).live() == ["a-K"]
        names = [each.name for each in (await status(bench.engine()))[-1].sources]
        assert sorted(names) == sorted([f"{ACME} a- {one.url}", f"{ACME} b- {other.url}"])


async def test_another_map_reads_anew_what_it_asks_for_and_tells_everything_anew(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round()
        server.ledger.clear()
        await into.round(read_dictionary(b'[Property.status]\n"Active" = "ComingSoon"\n"Closed" = "ComingSoon"'))
        assert not [visit for visit in server.ledger.visits if visit.resource == "Property"]
        statuses = {each["record"]["Status"] for each in (await bench.served(LISTING)).values() if not each["deleted"]}
        assert "ComingSoon" in statuses
        assert "Active" not in statuses
        assert all(each["deleted"] for each in (await bench.served(SOLD_LISTING)).values())
        await into.round(read_dictionary(b'[Property.fields]\nPublicRemarks = "OriginatingSystemName"'))
        assert [visit for visit in server.ledger.visits if "OriginatingSystemName" in visit.text]
        await into.round()
        assert await differences(bench, server) == {}


def _files_without(text: str, folder: Path) -> str:
    """Return the names of all files, none of which holds a text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if text.encode() in path.read_bytes()]
    return " ".join(path.name for path in files)


async def test_nothing_private_is_asked_for_or_kept_anywhere(bench: Bench, tmp_path: Path) -> None:
    """Dead letters included: the records that made them hold what was asked for and no more."""
    async with serving(Settings(late_share=0.2), small_world(properties=80, hostile=0.5)) as server:
        into = Into(bench, server, tmp_path)
        long = {"StandardStatus": "Active", "PropertyType": "Residential"} | dict.fromkeys(PRIVATE["Property"], CANARY)
        put(server, "Property", "k" * 200, **long)
        done = await into.round()
        for entity in ("Property", "Member"):
            for key in server.keys(entity)[:5]:
                server.patch(entity, key, **dict.fromkeys(PRIVATE[entity], f"{CANARY} again"))
        await into.round(settings={"reconcile_hours": 0.0})
        private = {name for names in PRIVATE.values() for name in names}
        records = [visit for visit in server.ledger.visits if visit.resource in DICTIONARY.entities]
        assert records
        assert all("$select=" in visit.text for visit in records)
        assert not [visit.text for visit in records if any(name in visit.text for name in private)]
        assert not private & {name for entity in PRIVATE for name in server.ledger.fields(entity)}
        assert bench.letters()
        assert CANARY not in str(bench.letters()) + str(done)
        for resource in RESOURCES:
            assert CANARY not in str(await bench.served(resource))
        assert "acme-" in _files_without(CANARY, tmp_path)
        written = orjson.dumps((await bench.client.search(index=bench.connection.control_index, size=100)).body)
        assert CANARY.encode() not in written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[Property", "mls.toml: "),
        ("[Properties]\nkey = 'K'", "Properties:? is nothing that is read"),
        ("[Property.fields]\nPublicRemarks = 'PrivateRemarks'", "PrivateRemarks is private and is never asked for"),
        ("private = []", "what is private is not for a map to say"),
        ("company = 'acme'", "mls.toml: "),
        ("[Property]\nkeys = 'K'", "mls.toml: "),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "mls.toml").write_text(text)
    with pytest.raises(SourceError, match=said):
        read_map(path)
    with pytest.raises(SourceError, match="cannot be opened"):
        read_map(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("declared", [{}, {"platform_company_id": "other"}])
def test_a_declared_company_that_is_another_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="must have platform_company_id = 'acme'"):
        Plan("https://x", ACME, DICTIONARY, declared)


async def test_what_cannot_be_replicated_is_told_before_anything_is_read(bench: Bench, tmp_path: Path) -> None:
    async with serving(Settings(without=frozenset({"EntityEvent", "Teams.ModificationTimestamp"}))) as server:
        into = Into(bench, server, tmp_path)
        with pytest.raises(SourceError, match="Teams of the source has no ModificationTimestamp"):
            await into.round()
    async with serving(Settings(without=frozenset({"EntityEvent"}))) as server:
        into = Into(bench, server, tmp_path)
        with pytest.raises(SourceError, match="acme is no company of the index: load it with"):
            await into.round(declared=None)
        with pytest.raises(SourceError, match="has no EntityEvent: follow it by timestamps"):
            await into.round(changes="events")
        with pytest.raises(SourceError, match="'Nowhere/Land' is no time zone"):
            await into.round(time_zone="Nowhere/Land")
    async with serving(Settings(without=frozenset({"Property"}))) as server:
        with pytest.raises(SourceError, match="The source has no Property"):
            await Into(bench, server, tmp_path).round()
    assert await bench.served(AGENT) == {} if await bench.indices() else True
