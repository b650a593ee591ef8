"""TOML files of operators: what would crash the parser, or take gigabytes, is an error that names its place."""

import os
import tracemalloc
from pathlib import Path

import pytest

from indexer.errors import SourceError
from indexer.reso.source_map import read_map
from indexer.source.tables.column_map import is_column_map, read_column_maps
from indexer.toml_files import read_toml

HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "dots": ("x = 1\n" + ".".join("a" * 20_000) + " = 1", "line 2: a name has more than 32 parts"),
    "dots in a header": ("[" + " . ".join("a" * 20_000) + "]", "line 1: a name has more than 32 parts"),
    "quoted names": (".".join(['"a"'] * 20_000) + " = 1", "line 1: a name has more than 32 parts"),
    "dots in an inline table": ("x = {" + ".".join("a" * 20_000) + " = 1}", "line 1: a name has more than 32 parts"),
    "lists": ("x = " + "[" * 50_000, "tables or lists are nested too deeply"),
    "tables": ("x = " + "{a=" * 50_000, "tables or lists are nested too deeply"),
    "short lists": ("x = {y = " + "[" * 17 + "]" * 17 + "}", r"x.y\[0\].*: more than 16 tables and lists"),
    "digits": ("x = 1\n\ny = " + "1" * 100_000, "line 3: a number has more than 1,000 digits"),
    "digits apart": ("y = " + "1_0" * 50_000, "line 1: a number has more than 1,000 digits"),
    "hexadecimal digits": ("[t]\ny = 0x" + "f" * 100_000, "t.y: the number has more than 64 bits"),
    "a large number": ("y = 9223372036854775808", "y: the number has more than 64 bits"),
    "infinity": ("y = [1.0, inf]", r"y\[1\]: is inf, not a number"),
    "text": ('y = "' + "x" * 70_000 + '"', "y: the text has more than 65,536 characters"),
    "length": ("# " + "x" * 2**20, "has more than 1,048,576 bytes"),
    "bytes": (b"x = 1\ny = \xff", "line 2 is not valid UTF-8"),
    "no TOML": ("x = 1\ny = ", r"is not valid TOML: Invalid value \(at end of document\)"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_place_and_little_memory(tmp_path: Path, name: str) -> None:
    content, said = HOSTILE[name]
    path = tmp_path / "map.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    tracemalloc.start()
    try:
        for read in (read_toml, read_column_maps, read_map):
            with pytest.raises(SourceError, match=rf"^map\.toml.*{said}"):
                read(path)
        assert is_column_map(path)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_names_and_texts_with_dots_are_read(tmp_path: Path) -> None:
    """Dots in quotation marks are no parts of a name, and a word without dots may be long."""
    path = tmp_path / "map.toml"
    name = ".".join("abcdefghijklmnopqrstuvwxyz")
    path.write_text(f'a.b.c."{name}" = "{"word. " * 500}"\n{"k" * 100_000} = 1\nd = 9223372036854775807\n')
    content = read_toml(path)
    assert content["a"]["b"]["c"][name].startswith("word. ")
    assert content["d"] == 2**63 - 1


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "map.toml")
    with pytest.raises(SourceError, match=r"map\.toml is not a regular file"):
        read_toml(tmp_path / "map.toml")
