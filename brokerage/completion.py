"""`brokerage completion`: shell completion of commands, options and their values.

The generated script runs the command itself at each press of TAB. Completions come from the code or the disk, never
from a cluster, since an unreachable one would block the prompt. So key ids are not completed.
"""

import rich_click as click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from brokerage.help import epilog

_PROGRAM, _VARIABLE = "brokerage", "_BROKERAGE_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    epilog=epilog(
        "brokerage completion bash >> ~/.bashrc",
        "brokerage completion zsh > ~/.zfunc/_brokerage",
        "brokerage completion fish > ~/.config/fish/completions/brokerage.fish",
        exits="0 success, 2 usage error",
    )
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell. It completes commands, options, resources and files.

    Saved as in the examples, it applies to every new shell; for zsh, add the folder to `fpath` before `compinit`. Key
    ids are not completed, since that would query Elasticsearch at every press of TAB.
    """
    click.echo(_SHELLS[shell](context.find_root().command, {}, _PROGRAM, _VARIABLE).source())


def files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete paths, for arguments that accept other values too."""
    return [CompletionItem(incomplete, type="file")]
