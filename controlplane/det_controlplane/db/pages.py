"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    TextClause,
    any_,
    asc,
    bindparam,
    cast,
    desc,
    func,
    literal_column,
    select,
    text,
)

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.db.schema import users


@dataclass(frozen=True, slots=True)
class Listing:
    """`name` is the field of the answer that holds the rows. `order` and `where` are ours, never a caller's text."""

    name: str
    item: str  # JSON
    source: str
    where: Sequence[str]
    order: str


class Start(Enum):
    FIRST, AFTER, FROM_END = "first", "after", "from end"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of a page is part of its statement: PostgreSQL plans it once, knowing how long the page is and whether it
    is the first one, as most are."""

    start: Start
    most: int | None

    @classmethod
    def of(cls, page: Page) -> "Bounds":
        later = Start.FROM_END if page.offset < 0 else Start.AFTER
        return cls(later if page.offset else Start.FIRST, page.most)


def total(source: str, where: str) -> str:
    return f"(SELECT count(*) FROM {source} WHERE {where})"


def span(source: str, where: str, order: str, bounds: Bounds) -> str:
    """The rows of the page, in order."""
    first = {
        Start.FIRST: "0",
        Start.AFTER: "cast(:offset AS integer)",
        Start.FROM_END: f"greatest({total(source, where)} + cast(:offset AS integer), 0)",
    }[bounds.start]
    limit = "ALL" if bounds.most is None else bounds.most
    return f"FROM {source} WHERE {where} ORDER BY {order} OFFSET {first} LIMIT {limit}"


@lru_cache(maxsize=512)
def _statement(listing: Listing, where: str, bounds: Bounds) -> TextClause:
    page = span(listing.source, where, listing.order, bounds)
    return text(f"""
        SELECT {total(listing.source, where)} AS total,
            (SELECT string_agg(q.item::text, ',') FROM (SELECT {listing.item} AS item {page}) q) AS items
    """)


def ending(page: Page, total: int) -> str:
    """Return what follows the rows of an answer."""
    return f'],"pagination":{as_json(page.pagination(total))}}}'


def fetch(tx: Tx, listing: Listing, page: Page, params: Mapping[str, Any]) -> str:
    """The whole answer as JSON text."""
    where = " AND ".join(listing.where) or "true"
    statement = _statement(replace(listing, where=()), where, Bounds.of(page))
    found = tx.execute(statement, {**params, "offset": page.offset}).all()[0]
    return f'{{"{listing.name}":[{found.items or ""}{ending(page, found.total)}'


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Rows that callers list, each as JSON. The first order is the default, and breaks ties of the others; a filter
    compares with the parameter of its own name."""

    name: str  # the field of the answer that holds the rows
    rows: Select[Any]  # of one column
    orders: Mapping[str, ColumnElement[Any] | TextClause]
    filters: Mapping[str, ColumnElement[bool]] = field(default_factory=dict)

    def filtered(self, names: Iterable[str]) -> Select[Any]:
        return self.rows.where(*(self.filters[name] for name in names))


def find(
    tx: Tx,
    collection: Collection,
    page: Page,
    sort: Sort,
    given: Mapping[str, Any],
    **others: Any,
) -> str:
    """Return the page that the given filters leave, as the JSON text of the whole answer."""
    by = sort.checked(collection.orders)
    statement = _page(collection, tuple(given), by, sort.descending, Bounds.of(page))
    found = tx.execute(statement, {**given, **others, "offset": page.offset}).one()
    return f'{{"{collection.name}":[{found.items or ""}{ending(page, found.total)}'


@lru_cache(maxsize=512)
def _page(
    collection: Collection, filters: tuple[str, ...], by: str, descending: bool, bounds: Bounds
) -> Select[Any]:
    rows = collection.filtered(filters)
    counted = rows.with_only_columns(func.count(), maintain_column_froms=True)
    total = counted.correlate(None).scalar_subquery()
    if bounds.start is Start.AFTER:
        rows = rows.offset(_OFFSET)
    elif bounds.start is Start.FROM_END:
        rows = rows.offset(func.greatest(total + _OFFSET, 0))
    if bounds.most is not None:
        rows = rows.limit(literal_column(str(bounds.most)))
    columns = dict.fromkeys([collection.orders[by], next(iter(collection.orders.values()))])
    ordered = [desc(c).nulls_last() if descending else asc(c) for c in columns]
    item = rows.selected_columns[0].label("item")
    shown = rows.with_only_columns(item).order_by(*ordered).subquery().c.item
    items = select(func.string_agg(cast(shown, Text), literal_column("','"))).scalar_subquery()
    return select(total.label("total"), items.label("items"))


_OFFSET = bindparam("offset", type_=Integer)


def one_of(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Compare a column with a list, which is the parameter of that name."""
    return column == any_(bindparam(name, type_=ARRAY(column.type)))


def owner_filters(table: FromClause, owners: FromClause = users) -> dict[str, ColumnElement[bool]]:
    """Return what everything that has a name and an owner is filtered by."""
    return {
        "name": table.c.name.icontains(bindparam("name")),
        "users": one_of(owners.c.username, "users"),
        "user_ids": one_of(table.c.user_id, "user_ids"),
    }


def label_filters(table: FromClause) -> dict[str, ColumnElement[bool]]:
    """Return what everything that can be described, labelled and archived is filtered by."""
    return {
        "description": table.c.description.icontains(bindparam("description")),
        "labels": table.c.labels.op("@>")(bindparam("labels", type_=ARRAY(Text))),
        "archived": table.c.archived == bindparam("archived"),
    }
