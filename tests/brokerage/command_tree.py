"""Every command of the `brokerage` command, found by walking its tree, and what a line of words would call."""

import shlex
from collections.abc import Iterator
from itertools import takewhile

import rich_click as click

from brokerage.command import main

_PROGRAM = "brokerage"


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, (*path, name))


COMMANDS = dict(_walk(main, (_PROGRAM,)))


def examples(command: click.Command) -> list[str]:
    return [line.removeprefix("$ ") for line in (command.epilog or "").splitlines() if line.startswith("$ ")]


def parse_command_line(line: str) -> str:
    """Return the path of the command that a shell line calls; raise UsageError where it does not take the words."""
    words = shlex.split(line.partition(" | ")[2] or line)
    words = list(takewhile(lambda word: word not in {">", ">>"}, words))
    assert words[0] == _PROGRAM
    command: click.Command = main
    context, path, rest = main.make_context(_PROGRAM, words[1:]), [_PROGRAM], words[1:]
    while isinstance(command, click.Group):
        name, rest = rest[0], rest[1:]
        found = command.get_command(context, name)
        assert found is not None, f"{line}: there is no {name}"
        command, context = found, found.make_context(name, list(rest), parent=context)
        path.append(name)
    return " ".join(path)
