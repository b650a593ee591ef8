"""Pages, docstrings, comments and messages contain none of the banned words."""

from pathlib import Path

import pytest

from tests.architecture.graph import PRODUCT, ROOT
from tests.architecture.prose import BANNED, package_findings, page_findings, pages

# Stored names: mirrors of RESO sources exist that have a table `told`.
STORED = {("indexer/reso/mirror.py", "told"), ("indexer/reso/outbox.py", "told")}
THIS_FILE = Path(__file__).relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_contain_no_banned_words(page: Path) -> None:
    assert page_findings(page) == []


@pytest.mark.parametrize("package", sorted({*PRODUCT, "bench", "tests"}))
def test_docstrings_comments_and_messages_contain_no_banned_words(package: str) -> None:
    found = [finding.split(":") for finding in package_findings(package)]
    unknown = [finding for finding in found if (finding[0], finding[-1].strip()) not in STORED]
    assert [finding for finding in unknown if finding[0] != THIS_FILE] == []


@pytest.mark.parametrize("text", ["A build that was killed is gone on with.", "It is no UTF-8.", "Whoever runs it."])
def test_the_words_of_the_list_are_found(text: str) -> None:
    assert any(banned.search(text) for banned in BANNED)


@pytest.mark.parametrize("text", ["There is no key.", "It is no longer kept.", "It is on in place of that."])
def test_ordinary_sentences_pass(text: str) -> None:
    assert not any(banned.search(text) for banned in BANNED)
