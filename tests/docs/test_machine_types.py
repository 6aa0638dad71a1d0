"""The page about pools lists the machine types of the catalog."""

from scripts import machine_types


def test_table_of_types_matches_the_catalog() -> None:
    page = machine_types.PAGE.read_text("utf-8")
    assert machine_types.table() in page, "run: python -m scripts.machine_types --write"
