"""What a profile expects and a source does not give: notes, the status, and the exit code."""

from pathlib import Path

import pytest

from indexer.reso.probe import probe_source
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import read_map
from tests.indexer.command.test_command import lines, run
from tests.indexer.conftest import Bench
from tests.reso.dialects.providers import PROVIDERS, SYSTEM, provider_replica
from tests.reso.replication_bench import COMPANY_MAP
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import small_world
from tests.reso.test_replicate_command import TOKEN, replicate


async def test_a_source_without_photos_or_open_houses_ends_with_1_unless_that_is_intended(
    bench: Bench, tmp_path: Path
) -> None:
    missing = [
        "The source has no Media. If that is intended, give --without media.",
        "The source has no OpenHouse. If that is intended, give --without open-houses.",
    ]
    without = frozenset({"Media", "OpenHouse", "Property.ListAgentKey"})
    with serve_in_thread(ServerSettings(token=TOKEN, without=without), small_world(media=0, open_houses=0)) as server:
        code, out, err = await replicate(bench, server, tmp_path)
        assert (code, all(text in err for text in missing)) == (1, True), err
        noted = ["Property of the source has no ListAgentKey."]
        assert lines(out)[-1]["missing"] == [*missing, *noted]
        _, shown, _ = await run(bench, "status")
        assert all(text in " ".join(shown.split()) for text in (*missing, *noted)), shown
        code, out, err = await replicate(bench, server, tmp_path, "--without", "media")
        assert (code, lines(out)[-1]["missing"]) == (1, [*missing[1:], *noted]), err
        code, out, err = await replicate(bench, server, tmp_path, "--without", "media", "--without", "open-houses")
        assert (code, lines(out)[-1]["missing"]) == (0, noted), err


@pytest.mark.parametrize("how", ["withheld", "empty", "open-houses"])
async def test_photos_and_open_houses_that_do_not_come_are_a_problem(bench: Bench, tmp_path: Path, how: str) -> None:
    """A set that the licence does not cover, and a set without records."""
    withheld = frozenset({"withheld": {"Media"}, "open-houses": {"OpenHouse"}}.get(how, ()))
    world, kind = small_world(media=0 if how == "empty" else 16), how if how == "open-houses" else "media"
    said = {
        "withheld": "Media returned 403: Your licence does not cover Media. Media is not read. If that is intended",
        "empty": "No record of the source has Media, so no listing has photos.",
        "open-houses": "OpenHouse is not read. If that is intended, give --without open-houses.",
    }[how]
    with serve_in_thread(ServerSettings(token=TOKEN, withheld=withheld), world) as server:
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, said in err) == (1, True), err
        code, _, err = await replicate(bench, server, tmp_path, "--without", kind)
        assert (code, said in err) == (0, False), err


async def test_a_wrong_name_of_the_system_is_a_problem_not_an_empty_index(bench: Bench, tmp_path: Path) -> None:
    missing = "The source returned no Property. Is OriginatingSystemName eq 'another' right?"
    provider = PROVIDERS["mlsgrid"]
    with serve_in_thread(provider.settings(), provider.world(1, properties=3)) as server:
        replica = provider_replica("mlsgrid", bench, server, tmp_path)
        assert await replica.run("--system", "another") == 1, replica.said
        _, shown, _ = await run(bench, "status")
        assert missing in " ".join(shown.split())
        assert await replica.run("--system", "another", "--without", "listings") == 0, replica.said


async def test_a_source_without_its_mark_of_deletion_ends_with_1_unless_that_is_accepted(
    bench: Bench, tmp_path: Path
) -> None:
    options = ("--profile", "mlsgrid", "--system", SYSTEM, "--without", "media")
    with serve_in_thread(ServerSettings(token=TOKEN, without=frozenset({"EntityEvent"})), small_world()) as server:
        for key in server.keys("Property"):
            server.patch("Property", key, OriginatingSystemName=SYSTEM)
        (tmp_path / "more.toml").write_text('[dialect]\nfilter = ""\n[dialect.limits]\nrequests_per_second = 0\n')
        given = (*options, "--map", str(tmp_path / "more.toml"))
        code, _, err = await replicate_declared(bench, server, tmp_path, *given)
        assert (code, "Property has no MlgCanView, which marks deleted records in the profile mlsgrid" in err) == (
            1,
            True,
        )
        code, _, err = await replicate_declared(bench, server, tmp_path, *given, "--without", "deletions")
        assert (code, "MlgCanView" in err) == (0, False), err


async def replicate_declared(bench: Bench, server: object, folder: Path, *options: str) -> tuple[int, str, str]:
    path = folder / "more.toml"
    text = path.read_text()
    if "[company]" not in text:
        path.write_text(text + COMPANY_MAP)
    return await replicate(bench, server, folder, *options)  # type: ignore[arg-type]  # a server


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_probe_names_the_profile_and_a_map_to_start_from(name: str) -> None:
    provider = PROVIDERS[name]
    settings = ResoSettings(token="" if provider.settings().client else TOKEN, allow_http=True, rate=1000.0)
    world = provider.world(1, properties=20, media=60, open_houses=10, members=5, offices=2)
    with serve_in_thread(provider.settings(token=None, client=None), world) as server:
        given = name if name in {"trestle", "bridge", "spark"} else ""  # recognized by their hosts
        found = await probe_source(server.url, settings, print, profile=given, system=SYSTEM)
    text = "\n".join(found.lines)
    assert (found.profile, f'profile = "{name}"' in found.map_text) == (name, True), text
    assert "10 Property records of 20 read." in text
    assert "Missing: The source has no Media" not in text
    assert f'system = "{SYSTEM}"' in found.map_text


async def test_the_command_writes_the_map_of_a_probe_and_overwrites_none(bench: Bench, tmp_path: Path) -> None:
    """To standard output without --map; what was found goes to standard error."""
    token = {"BROKERAGE_RESO_TOKEN": TOKEN, "BROKERAGE_RESO_RATE": "1000"}
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        code, out, err = await run(bench, "replicate", server.url, "--probe", **token)
        assert (code, "Profile: generic" in err, 'profile = "generic"' in out) == (0, True, True), err
        path = tmp_path / "mls.toml"
        code, written, _ = await run(bench, "replicate", server.url, "--probe", "--map", str(path), **token)
        assert (code, written, path.read_text()) == (0, "", out)
        assert read_map(path).dialect.profile == "generic"
        code, _, err = await run(bench, "replicate", server.url, "--probe", "--map", str(path), **token)
        assert (code, err) == (2, f"{path} exists: give --map a new file.\n")
        code, _, err = await run(bench, "replicate", server.url, **token)
        assert (code, "Missing option '--company'" in err) == (2, True)
