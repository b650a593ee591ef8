"""The `brokerage` command."""

import os
from importlib.metadata import version

import rich_click as click

from brokerage.help import LazyGroup, epilog

_COMMANDS = {
    "demo": ("brokerage.demo:demo", "Serve sample data from an embedded Elasticsearch until Ctrl-C."),
    "serve": ("brokerage.serve:serve", "Serve the API until Ctrl-C."),
    "node": ("brokerage.node:node", "Run a real Elasticsearch on this machine, for demos and tests."),
    "sample": ("brokerage.sample:sample", "Write sample data to DIR, ready to be indexed."),
    "index": ("brokerage.index:index", "Build and maintain the indices that the service reads."),
    "keys": ("brokerage.keys:keys", "Create, list, rotate and revoke API keys."),
    "audit": ("brokerage.audit:audit", "Show which keys were sent a record."),
    "subscriptions": ("brokerage.subscriptions:subscriptions", "Keep the addresses to which changes are pushed."),
    "deliver": ("brokerage.deliver:deliver", "Push changes to subscriptions until Ctrl-C."),
    "pull": ("brokerage.pull:pull", "Copy the data that an API key can read to DIR."),
    "size": ("brokerage.size:size", "Estimate disks, nodes, workers, memory and processors."),
    "settings": ("brokerage.settings:settings", "List all settings, or those that contain WORD, with secrets masked."),
    "doctor": ("brokerage.doctor.command:doctor", "Check settings, Redis, Elasticsearch, indices and keys."),
    "openapi": ("brokerage.openapi:openapi", "Print the OpenAPI document that `/v1/openapi.json` serves."),
    "completion": ("brokerage.completion:completion", "Print the completion script for a shell."),
}


@click.group(
    cls=LazyGroup,
    modules=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=epilog(
        "brokerage demo",
        "brokerage index reindex data",
        "brokerage serve --workers 4",
        exits="0 success, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable, 4 locked by another run",
    ),
)
@click.version_option(version("brokerage-server"), prog_name="brokerage")
@click.pass_context
def main(context: click.Context) -> None:
    """Serve real-estate brokerage data as JSON, from indices in Elasticsearch.

    Try `brokerage demo` first. All other commands use the cluster in `ELASTICSEARCH_URL`.
    """
    # Files of all commands, and of the node they start, hold records or keys.
    previous = os.umask(0o077)
    context.call_on_close(lambda: os.umask(previous))
