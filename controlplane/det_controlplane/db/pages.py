"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Integer,
    Row,
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
)

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.db.schema import users


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
    # PostgreSQL plans a statement once, knowing how long the page is and whether it is the first, as most are.
    shape = replace(page, offset=max(-1, min(page.offset, 1)))
    statement = _page(collection, tuple(given), by, sort.descending, shape)
    found = tx.execute(statement, {**given, **others, "offset": page.offset}).one()
    return _answer(collection.name, found, page)


def search(tx: Tx, name: str, rows: Select[Any], order: Sequence[Any], page: Page) -> str:
    """Return a page of rows that a caller's own conditions chose, in an order of the caller's."""
    total = _total(rows)
    statement = _shown(_paged(rows, page, total), order, total)
    return _answer(name, tx.execute(statement, {"offset": page.offset}).one(), page)


def _answer(name: str, found: Row[Any], page: Page) -> str:
    pagination = as_json(page.pagination(found.total))
    return f'{{"{name}":[{found.items or ""}],"pagination":{pagination}}}'


@lru_cache(maxsize=512)
def _page(
    collection: Collection, filters: tuple[str, ...], by: str, descending: bool, shape: Page
) -> Select[Any]:
    rows = collection.filtered(filters)
    total = _total(rows)
    rows = _paged(rows, shape, total)
    columns = dict.fromkeys([collection.orders[by], next(iter(collection.orders.values()))])
    ordered = [desc(c).nulls_last() if descending else asc(c) for c in columns]
    return _shown(rows, ordered, total)


def _paged(rows: Select[Any], page: Page, total: Any) -> Select[Any]:
    if page.offset > 0:
        rows = rows.offset(_OFFSET)
    elif page.offset < 0:
        rows = rows.offset(func.greatest(total + _OFFSET, 0))
    return rows if page.most is None else rows.limit(literal_column(str(page.most)))


def _total(rows: Select[Any]) -> Any:
    counted = rows.with_only_columns(func.count(), maintain_column_froms=True)
    return counted.correlate(None).scalar_subquery()


def _shown(rows: Select[Any], ordered: Sequence[Any], total: Any) -> Select[Any]:
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
