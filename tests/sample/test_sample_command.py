"""`brokerage sample`: what a person sees of it."""

from pathlib import Path

from click.testing import CliRunner

from brokerage.sample import sample


def test_the_command_writes_a_source_and_says_how_much_and_where(tmp_path: Path) -> None:
    result = CliRunner().invoke(sample, [str(tmp_path / "source"), "--listings", "1200", "--seed", "5"])
    assert result.exit_code == 0
    assert (tmp_path / "source" / "listings.ndjson").read_bytes().count(b"\n") == 1200
    assert "with seed 5" in (tmp_path / "source" / "README.txt").read_text()
    assert "1,200" in result.stdout
    assert f"Written to {tmp_path / 'source'} with seed 5" in result.stdout


def test_nothing_but_the_result_is_printed_without_a_terminal(tmp_path: Path) -> None:
    result = CliRunner().invoke(sample, [str(tmp_path), "--listings", "10"])
    assert result.stderr == ""


def test_a_terminal_is_shown_how_far_the_work_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(sample, [str(tmp_path), "--listings", "10"], env={"FORCE_COLOR": "1", "COLUMNS": "120"})
    assert "Writing records" in result.stderr
    assert "15/15" in result.stderr


def test_a_directory_of_others_ends_with_a_sentence_and_code_one(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    result = CliRunner().invoke(sample, [str(tmp_path)])
    assert result.exit_code == 1
    assert "such as letter.txt" in " ".join(result.output.replace("│", " ").split())
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_zero_listings_are_refused_by_name(tmp_path: Path) -> None:
    result = CliRunner().invoke(sample, [str(tmp_path), "--listings", "0"])
    assert result.exit_code == 2
    assert "--listings" in result.output
