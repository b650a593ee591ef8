"""The names that RESO publishes in its Data Dictionary, of the entities that are served here.

`python -m tests.odata.dictionary_names dd-2.0.json` writes them from RESO's reference metadata (`references/dd/json` in
its repository `transport`), and prints what was a name before: `[renamed]` of `mappings/reso.toml` must know it.
"""

import json
import sys
from pathlib import Path
from textwrap import wrap

from service.reso.metadata import ENTITY_SET_NAMES

FILE = Path(__file__).with_name("data_dictionary_2.0.txt")


def published_names() -> dict[str, set[str]]:
    """Return the names of fields and navigation properties by entity."""
    sections = FILE.read_text().split("\n\n")
    return {entity: set(names) for entity, *names in (section.split() for section in sections)}


def main(reference: str) -> None:
    fields = json.loads(Path(reference).read_text())["fields"]
    before = published_names() if FILE.exists() else {}
    found = {
        name: {field["fieldName"] for field in fields if field["resourceName"] == name} for name in ENTITY_SET_NAMES
    }
    sections = ("\n".join([name, *wrap(" ".join(sorted(found[name])), 110)]) for name in sorted(found))
    FILE.write_text("\n\n".join(sections) + "\n")
    for name, gone in sorted((name, names - found.get(name, set())) for name, names in before.items()):
        if gone:
            print(f"{name} has lost {', '.join(sorted(gone))}; new are {', '.join(sorted(found[name] - before[name]))}")


if __name__ == "__main__":
    main(sys.argv[1])
