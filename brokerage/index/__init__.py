"""`brokerage index`: build, update, inspect, verify, compact, publish, roll back and prune the indices."""

import rich_click as click

from brokerage.help import INDEX_EXITS, LazyGroup, epilog

_COMMANDS = {
    "check": (
        "brokerage.index.inspect_source:check",
        "Read all of SOURCE, and report its faults, fields, identifiers and references. Elasticsearch is not needed.",
    ),
    "compact": (
        "brokerage.index.maintain:compact",
        "Merge the live indices that updates have fragmented, so that a page costs what it did after the rebuild.",
    ),
    "load": (
        "brokerage.index.load_tables:load",
        "Load the CSV files, archives or folders of a company: draft their column map, check it, ask, and load.",
    ),
    "map": (
        "brokerage.index.load_tables:map_files",
        "Draft the column map (TOML) of CSV files, archives or folders from their headers and values.",
    ),
    "prune": (
        "brokerage.index.maintain:prune",
        "Delete old generations, leftovers of builds, and expired tombstones.",
    ),
    "publish": (
        "brokerage.index.publish:publish",
        "Write files of each company and resource to TARGET, a folder or an object store, by default "
        "BROKERAGE_EXPORTS.",
    ),
    "reindex": (
        "brokerage.index.load:reindex",
        "Rebuild the records of the companies that SOURCE covers, and swap all indices in together after verification.",
    ),
    "repair-clock": (
        "brokerage.index.maintain:repair_clock",
        "Repair what a run under a clock that was ahead has left: stamps and watermarks in the future.",
    ),
    "replicate": (
        "brokerage.index.replicate:replicate",
        "Copy listings, sold listings, agents, offices and teams from the RESO Web API at URL, and follow its changes.",
    ),
    "restored": (
        "brokerage.index.maintain:restored",
        "Let consumers start again after a restore of Elasticsearch: by default of all resources.",
    ),
    "rollback": (
        "brokerage.index.maintain:rollback",
        "Restore the previous generation of RESOURCE, with all updates since it was replaced.",
    ),
    "status": (
        "brokerage.index.maintain:status",
        "Show generations, counts, sizes, fragmentation, mappings, last runs and unfinished builds of each resource.",
    ),
    "troubles": (
        "brokerage.index.troubles:troubles",
        "List the records whose newest line could not be read, so that they are not served as their source says.",
    ),
    "update": (
        "brokerage.index.load:update",
        "Apply the records and deletions of SOURCE to the live indices, in any order.",
    ),
    "verify": (
        "brokerage.index.verify:verify",
        "Compare the live records with SOURCE, those of the companies that it covers; or all with the previous "
        "generation.",
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
