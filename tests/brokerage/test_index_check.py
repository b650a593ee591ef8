"""`brokerage index check` as a process: its report as text, JSON and HTML, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

START = "from brokerage.command import main; main(prog_name='brokerage')"
MAP = """resource = "listings"
file = "listings.csv"
platform_company_id = "acme"
updated_at = "2026-01-01"
[record]
PlatformListingId = {column = "id"}
ListPrice = {column = "price"}
Status = "Active"
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command without an Elasticsearch."""
    given = {**os.environ, "ELASTICSEARCH_URL": "http://127.0.0.1:1"}
    command = [sys.executable, "-c", START, "index", "check", *arguments]
    folder.joinpath("map.toml").write_text(MAP)
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command


def test_a_report_is_text_json_and_html(tmp_path: Path) -> None:
    (tmp_path / "listings.csv").write_text("id;price\n1;100\n2;<b>no</b>\n")
    page = tmp_path / "report.html"
    text = run(tmp_path, str(tmp_path / "map.toml"), "--html", str(page))
    assert (text.returncode, text.stderr) == (1, "Bad lines, which would not be served: 1.\n")
    assert "Note: listings.csv is read with the delimiter ';': if that is wrong, set `delimiter`." in text.stdout
    assert "listings: 2 lines, 1 bad." in text.stdout
    assert "listings.csv:3: <b>no</b>" in text.stdout
    assert "listings.csv:3: &lt;b&gt;no&lt;/b&gt;" in page.read_text()
    assert '<p class="headline bad">2 lines · 1 bad · 0 values rounded</p>' in page.read_text()
    assert "Empty: " in page.read_text()
    assert "<td>0.0%" not in page.read_text()
    found = json.loads(run(tmp_path, str(tmp_path / "map.toml"), "--json").stdout)
    assert found["resources"][0]["faults"][0]["examples"] == [{"file": "listings.csv", "line": 3, "value": "<b>no</b>"}]


def test_a_source_without_faults_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "listings.csv").write_text("id,price\n1,100\n")
    text = run(tmp_path, str(tmp_path / "map.toml"))
    assert (text.returncode, text.stderr) == (0, "")


def test_a_report_names_the_fields_whose_values_are_rounded(tmp_path: Path) -> None:
    (tmp_path / "listings.csv").write_text("id,price\n1,100.4\n2,99.5\n3,7\n")
    text = run(tmp_path, str(tmp_path / "map.toml"))
    assert "listings: 3 lines, 0 bad, 2 values rounded (2 ListPrice, such as 100.4 to 100)." in text.stdout


def test_ranges_are_of_what_has_an_order_and_times_have_whole_seconds(tmp_path: Path) -> None:
    photo = "https://photos.example/1.jpg"
    record = {"ListAgentUUID": "37ff4eb5-b409-539d-aab9-3e22abf78aa4", "ListingURL": photo, "YearBuilt": 1902}
    content = record | {"Status": "Active", "ModificationTimestamp": "2026-09-02T11:23:00.123456Z"}
    lines = [
        {
            "platform_company_id": "acme",
            "updated_at": "2026-11-20T10:00:00Z",
            "record": content | {"PlatformListingId": name},
        }
        for name in "ab"
    ]
    source = tmp_path / "listings.ndjson"
    source.write_text("\n".join(map(json.dumps, lines)))
    rows = {row[0]: row[2:] for line in run(tmp_path, str(source)).stdout.splitlines() if (row := line.split())}
    assert rows["ListAgentUUID"] == [record["ListAgentUUID"], "(2)"]
    assert rows["ListingURL"] == [photo, "(2)"]
    assert rows["YearBuilt"] == ["1902", "1902", "1902", "(2)"]
    assert rows["ModificationTimestamp"] == ["2026-09-02T11:23:00Z"] * 3 + ["(2)"]


def test_a_source_that_cannot_be_read_exits_with_2(tmp_path: Path) -> None:
    text = run(tmp_path, str(tmp_path / "map.toml"))
    assert text.returncode == 2
    assert text.stderr.startswith("map.toml: file is 'listings.csv', but ")


def test_a_folder_without_a_source_exits_with_2(tmp_path: Path) -> None:
    folder = tmp_path / "no source"
    folder.mkdir()
    text = run(tmp_path, str(folder))
    assert (text.returncode, text.stdout) == (2, "")
    assert text.stderr.startswith("The source has nothing for any of: companies, offices")


def test_a_bare_table_names_the_commands_that_take_it(tmp_path: Path) -> None:
    table, pattern = tmp_path / "listings.csv", tmp_path / "exports"
    pattern.mkdir()
    for path in (table, pattern / "listings.csv.gz"):
        path.write_text("id,price\n1,100\n")
    for name in (table, pattern):
        text = run(tmp_path, str(name))
        assert text.returncode == 2
        assert text.stderr.endswith(
            f"To load tables: brokerage index load {name} --company KEY. "
            f"To draft their column map: brokerage index map {name}.\n"
        )


def test_the_company_of_a_map_without_one_is_said_to_be_missing_and_how_to_add_it(tmp_path: Path) -> None:
    (tmp_path / "listings.csv").write_text("id,price\n1,100\n")
    text = run(tmp_path, str(tmp_path / "map.toml"))
    assert (
        "The source defines no company, so acme must be live. If acme is new, define it in the source: in a column map "
        'as [company] with platform_company_id = "acme" and name = "…", in a folder in companies.ndjson.'
    ) in text.stdout


def test_a_source_with_only_bad_lines_is_reported_by_its_faults_alone(tmp_path: Path) -> None:
    (tmp_path / "listings.csv").write_text("id,price\n1,many\n2,few\n")
    text = run(tmp_path, str(tmp_path / "map.toml"), "--html", str(tmp_path / "report.html"))
    said = text.stdout.splitlines()
    assert said[-3] == "listings: 2 lines, 2 bad."
    assert said[-2].split() == ["Count", "Field", "Column", "Fault", "Such", "as"]
    assert "is not a number" in said[-1]
    page = (tmp_path / "report.html").read_text()
    assert "is not a number" in page
    assert "<th>Filled</th>" not in page
