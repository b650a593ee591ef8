"""Which versions of Elasticsearch are refused."""

import pytest

from cluster.connection import unsupported_versions


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        ("9.5.3", None),
        ("9.4.0", None),
        ("9.4.7", None),
        ("9.6.0-SNAPSHOT", None),
        ("10.0.0", None),
        ("9.5.0", "can lose documents on replicas"),
        ("9.5.1", "can lose documents on replicas"),
        ("9.5.2", "can lose documents on replicas"),
        ("9.3.9", "is too old"),
        ("8.19.4", "is too old"),
    ],
)
def test_versions_that_lose_documents_or_are_too_old_are_refused(version: str, complaint: str | None) -> None:
    said = unsupported_versions([{"name": "b", "version": version}, {"name": "a", "version": version}])
    if complaint is None:
        assert said == []
    else:
        assert said == [f"a, b: Elasticsearch {version} {complaint}, install 9.5.3 or newer."]


def test_each_version_among_the_nodes_is_named() -> None:
    nodes = [{"name": f"node-{n}", "version": version} for n, version in enumerate(("9.5.1", "9.5.3", "8.1.0"))]
    assert [sentence.partition(":")[0] for sentence in unsupported_versions(nodes)] == ["node-2", "node-0"]
