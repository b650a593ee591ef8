"""Measured runs of commands."""

import pytest

from bench.programs import measure_command

_HELD_BYTES = 300_000_000


def test_the_memory_of_a_command_is_its_own_and_not_that_of_the_process_that_measures() -> None:
    held = b"x" * _HELD_BYTES
    used = measure_command("--version", environment={})
    assert 0 < used.memory < len(held)
    assert used.processor > 0


def test_a_command_that_fails_ends_the_benchmark_with_its_name_and_exit_code() -> None:
    with pytest.raises(SystemExit, match=r"brokerage index reindex .* ended with 2\."):
        measure_command("index", "reindex", "no-such-source", environment={})
