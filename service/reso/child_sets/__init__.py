"""Entity sets whose rows are elements of lists in records: photos, open houses and memberships of teams."""
