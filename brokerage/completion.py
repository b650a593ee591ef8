"""`brokerage completion`: the script by which a shell completes commands, options and what they take.

The script asks the command itself at each press of TAB. What it answers is in the code or on the disk: a cluster is
never asked, since one that is away would hold up the prompt. So key ids are not completed.
"""

from __future__ import annotations

import rich_click as click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from brokerage.examples import ending

_PROGRAM, _VARIABLE = "brokerage", "_BROKERAGE_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    epilog=ending(
        "brokerage completion bash >> ~/.bashrc",
        "brokerage completion zsh > ~/.zfunc/_brokerage",
        "brokerage completion fish > ~/.config/fish/completions/brokerage.fish",
        exits="0 done, 2 wrong usage",
    )
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes `brokerage` in a shell: commands, options, resources, files.

    Where the examples put it every new shell has it; for zsh the folder must be in `fpath` before `compinit`. Key ids
    are not completed, since that would ask Elasticsearch at every press of TAB.
    """
    click.echo(_SHELLS[shell](context.find_root().command, {}, _PROGRAM, _VARIABLE).source())


def files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete paths, for arguments that may be something else too."""
    return [CompletionItem(incomplete, type="file")]
