"""Which company a key or a numeric id names."""

from indexer.documents.companies import Companies


def test_the_first_company_that_claims_a_numeric_id_keeps_it() -> None:
    companies = Companies()
    companies.add("first", "7")
    companies.add("second", "7")
    assert [companies.key_of(name) for name in ("first", "second", "7", "8")] == ["first", "second", "first", None]
