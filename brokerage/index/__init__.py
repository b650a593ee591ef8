"""`brokerage index`: build, update, inspect, verify, compact, publish, roll back and prune the indices."""

import rich_click as click

from brokerage.help import INDEX_EXITS, LazyGroup, epilog

# In the order of their use.
_COMMANDS = {
    "load": (
        "brokerage.index.load_tables:load",
        "Load the CSV files, archives or folders of a company: draft their column map, check it, ask, and load.",
    ),
    "map": (
        "brokerage.index.load_tables:map_files",
        "Draft a column map (TOML) from CSV files, archives or folders.",
    ),
    "check": (
        "brokerage.index.inspect_source:check",
        "Read all of SOURCE, and report its faults, fields, identifiers and references. Elasticsearch is not needed.",
    ),
    "reindex": (
        "brokerage.index.load:reindex",
        "Replace the records of the companies that SOURCE covers, and go live with all of them after checks.",
    ),
    "update": (
        "brokerage.index.load:update",
        "Apply the records and deletions of SOURCE to the live indices, in any order.",
    ),
    "replicate": (
        "brokerage.index.replicate:replicate",
        "Copy listings, sold listings, agents, offices and teams from the RESO Web API at URL, and follow its changes.",
    ),
    "verify": (
        "brokerage.index.verify:verify",
        "Compare the live records with SOURCE, those of the companies that it covers; or all with the previous "
        "version.",
    ),
    "status": (
        "brokerage.index.maintain:status",
        "Show versions, counts, sizes, fragmentation, mappings, last runs and unfinished builds of each resource.",
    ),
    "troubles": (
        "brokerage.index.troubles:troubles",
        "List the records whose newest line could not be read, so that they are not served as their source says.",
    ),
    "rollback": (
        "brokerage.index.maintain:rollback",
        "Restore the previous index version of RESOURCE, with all updates since it was replaced.",
    ),
    "publish": (
        "brokerage.index.publish:publish",
        "Write files of each company and resource to TARGET, a folder or an object store, by default "
        "BROKERAGE_EXPORTS.",
    ),
    "compact": (
        "brokerage.index.maintain:compact",
        "Defragment indices after many updates, which makes reads fast again.",
    ),
    "prune": (
        "brokerage.index.maintain:prune",
        "Delete old index versions, leftovers of builds, and records of old deletions.",
    ),
    "restored": (
        "brokerage.index.maintain:restored",
        "Tell consumers that Elasticsearch was restored: by default for all resources.",
    ),
    "repair-clock": (
        "brokerage.index.maintain:repair_clock",
        "Fix timestamps and watermarks that were written while a clock was ahead.",
    ),
}


@click.group(
    cls=LazyGroup,
    modules=_COMMANDS,
    epilog=epilog(
        "brokerage index load listings.csv --company acme",
        "brokerage index reindex data",
        "brokerage index update changes.ndjson.gz",
        "brokerage index status",
        exits=INDEX_EXITS,
    ),
)
def index() -> None:
    """Build and maintain the indices that the service reads."""
