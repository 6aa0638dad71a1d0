"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row.

A long page, as one without a limit may be, is read and sent in parts: no process holds all of it.
The total of a very long listing is counted once in a while (`database.Totals`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    Subquery,
    Text,
    TextClause,
    any_,
    asc,
    bindparam,
    cast,
    column,
    desc,
    func,
    join,
    literal_column,
    null,
    select,
    text,
)

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Database, as_json
from det_controlplane.db.schema import users

# Rows; the longest JSON of one, a checkpoint with its configuration, has a few kilobytes.
PART = 1000
# Rows may contain megabytes of user text. A part ends with the row that exceeds this.
PART_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Rows that callers list, each as JSON. The first order is the default, and breaks ties of the others; a filter
    compares with the parameter of its own name. No two rows have one key, which is the first order unless it is given."""

    name: str  # the field of the answer that holds the rows
    rows: Select[Any]  # of one column
    orders: Mapping[str, ColumnElement[Any] | TextClause]
    filters: Mapping[str, ColumnElement[bool]] = field(default_factory=dict)
    key: ColumnElement[Any] | None = None
    # Filters that an index finds in no order. Pages with one evaluate all conditions once, for the total and the rows.
    searches: frozenset[str] = frozenset()
    # A total above this is not counted further: it is one more than this, or than the end of the page.
    counted: int | None = None
    # Tables that only some orders read, with the condition to join them. Each row has exactly one of theirs.
    joins: Sequence[tuple[FromClause, ColumnElement[bool]]] = ()

    @property
    def own_key(self) -> Any:
        return next(iter(self.orders.values())) if self.key is None else self.key

    def filtered(self, names: Iterable[str]) -> Select[Any]:
        return self.rows.where(*(self.filters[name] for name in names))

    def joined(self, rows: Select[Any], order: ColumnElement[Any] | TextClause) -> Select[Any]:
        """Join the table that an order reads."""
        for table, condition in self.joins:
            if isinstance(order, Column) and order.table is table:
                source = rows.get_final_froms()[0]
                rows = rows.select_from(join(source, table, condition))
        return rows


def find(
    db: Database,
    collection: Collection,
    page: Page,
    sort: Sort,
    given: Mapping[str, Any],
    **others: Any,
) -> Iterator[str]:
    """Return the page that the given filters leave, as the JSON text of the whole answer: at once, or in parts.

    The rows of a long page are settled at its beginning, each is as it is when its part is read."""
    arguments = (collection, tuple(given), sort.checked(collection.orders), sort.descending)
    params = {**given, **others}
    subject = (collection, repr(sorted(params.items())))
    first = partial(_first_page, *arguments)
    return _read(db, collection.name, first, lambda: _list_rows(*arguments), page, params, subject)


def search(
    db: Database, name: str, listed: "Listed", page: Page, subject: Hashable
) -> Iterator[str]:
    """Return a page of rows that a caller's own conditions chose, in an order of the caller's.

    The subject identifies these conditions: listings of one subject have the same total."""
    subject = (name, subject)
    if listed.leading is not None:
        leading = listed.leading.page
        return _read(db, name, listed.page, lambda: listed, page, {}, subject, leading)
    return _read(db, name, listed.page, lambda: listed, page, {}, subject)


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a listing in their order, and the statements that read them.

    The `leading` rows are its first ones, in the same order, and are read by an index. A page within them needs no other
    rows. The total is the number of `counted_rows`, if they are given."""

    rows: Select[Any]
    key: Any
    order: Sequence[Any]
    counted: int | None = None
    counted_rows: Select[Any] | None = None
    leading: "Listed | None" = None

    def page(self, page: Page, *, counted: bool) -> Select[Any]:
        """Return the statement for a page, with the total unless that is known."""
        # Rows before the page are skipped by their keys: PostgreSQL would write the JSON of each of them.
        rows = self._chosen(page)
        if page.offset:
            rows = self.rows.where(self.key.in_(self.keys(page))).order_by(*self.order)
        fitting = _join_fitting_rows(rows, literal_column("0"))
        total = self._total(page) if counted else null()
        return select(total.label("total"), fitting)

    def keys(self, page: Page) -> Select[Any]:
        return self._chosen(page).with_only_columns(self.key, maintain_column_froms=True)

    def part(self) -> Select[Any]:
        """Return the statement for the rows with some keys, in the order of those."""
        keys = bindparam("keys", type_=ARRAY(self.key.type))
        places = (
            func.unnest(keys)
            .table_valued(column("key", self.key.type), with_ordinality="place")
            .render_derived(name="wanted")
        )
        rows = self.rows.where(self.key == places.c.key).order_by(places.c.place)
        return select(_join_fitting_rows(rows, places.c.place))

    def _chosen(self, page: Page) -> Select[Any]:
        rows = self.rows.order_by(*self.order)
        if page.offset > 0:
            rows = rows.offset(_OFFSET)
        elif page.offset < 0:
            rows = rows.offset(func.greatest(self._total(page) + _OFFSET, 0))
        return rows if page.most is None else rows.limit(literal_column(str(page.most)))

    def _total(self, page: Page) -> ScalarSelect[Any]:
        rows = self.rows if self.counted_rows is None else self.counted_rows
        if self.counted is None or page.most is None or page.offset < 0:
            total = rows.with_only_columns(func.count(), maintain_column_froms=True)
        else:
            least = literal_column(str(self.counted + 1), Integer)
            end = _OFFSET + (page.most + 1) if page.offset else least
            some = rows.with_only_columns(self.key, maintain_column_froms=True)
            total = select(func.count()).select_from(
                some.limit(func.greatest(least, end)).subquery()
            )
        return total.correlate(None).scalar_subquery()


def _join_fitting_rows(rows: Select[Any], place: ColumnElement[Any]) -> Subquery:
    """Join the JSON of rows up to a number of bytes. Return the text, the number of rows, the total, and the
    position of the last row."""
    columns = (rows.selected_columns[0].label("item"), place.label("place"))
    source = rows.with_only_columns(*columns).subquery()
    item = cast(source.c.item, Text)
    before = func.sum(func.octet_length(item)).over(rows=(None, -1))
    items = select(item.label("item"), source.c.place, before.label("before")).subquery()
    fits = func.coalesce(items.c.before, 0) < bindparam("part_bytes", type_=BigInteger)
    return select(
        func.string_agg(items.c.item, literal_column("','")).filter(fits).label("items"),
        func.count().filter(fits).label("taken"),
        func.count().label("found"),
        func.max(items.c.place).filter(fits).label("last"),
    ).subquery()


def _list_rows(
    collection: Collection, filters: tuple[str, ...], by: str, descending: bool
) -> Listed:
    order = _order_columns(_columns(collection, by), descending)
    rows = collection.joined(collection.filtered(filters), collection.orders[by])
    return Listed(rows, collection.own_key, order, collection.counted)


def _select_search_page(
    collection: Collection, filters: tuple[str, ...], by: str, descending: bool, page: Page
) -> Select[Any]:
    """Return the statement for a page and its total that reads the rows of a search once."""
    columns = _columns(collection, by)
    rows = collection.joined(collection.filtered(filters), collection.orders[by])
    labels = [column.label(f"order_{n}") for n, column in enumerate(columns)]
    keys = rows.with_only_columns(
        collection.own_key.label("key"), *labels, maintain_column_froms=True
    )
    matches = keys.cte("found")
    order = _order_columns([matches.c[label.name] for label in labels], descending)
    some = select(matches.c.key).order_by(*order).limit(literal_column(str(page.most)))
    if page.offset:
        some = some.offset(_OFFSET)
    shown = collection.joined(collection.rows, collection.orders[by])
    shown = shown.where(collection.own_key == some.subquery("some").c.key).order_by(
        *_order_columns(columns, descending)
    )
    total = select(func.count()).select_from(matches).scalar_subquery()
    return select(total.label("total"), _join_fitting_rows(shown, literal_column("0")))


def _columns(collection: Collection, by: str) -> list[Any]:
    """Return the columns of an order; the default one breaks ties, and then the key."""
    first = next(iter(collection.orders.values()))
    return list(dict.fromkeys([collection.orders[by], first, collection.own_key]))


def _order_columns(columns: Iterable[Any], descending: bool) -> list[ColumnElement[Any]]:
    return [_order_descending(c) if descending else asc(c) for c in columns]


def _order_descending(order: Any) -> ColumnElement[Any]:
    """Order from the highest to the lowest, and rows without a value at the end."""
    descending: ColumnElement[Any] = desc(order)
    # PostgreSQL reads an ascending index backwards only if the order does not say where NULL goes.
    is_filled = isinstance(order, Column) and not order.nullable
    return descending if is_filled else descending.nulls_last()


@lru_cache(maxsize=512)
def _first_page(
    collection: Collection,
    filters: tuple[str, ...],
    by: str,
    descending: bool,
    page: Page,
    *,
    counted: bool,
) -> Select[Any]:
    if counted and page.offset >= 0 and not collection.searches.isdisjoint(filters):
        return _select_search_page(collection, filters, by, descending, page)
    return _list_rows(collection, filters, by, descending).page(page, counted=counted)


def _first(page: Page) -> Page:
    """Return the offset and limit of a page as SQL. PostgreSQL plans each statement once, so the plan can use the
    length of the page, and whether it is the first one."""
    is_short = page.most is not None and page.most <= PART
    offset = max(-1, min(page.offset, 1))
    return replace(page, offset=offset, limit=page.limit if is_short else PART)


def _read(
    db: Database,
    name: str,
    first: Callable[..., Select[Any]],
    listed: Callable[[], Listed],
    page: Page,
    params: Mapping[str, Any],
    subject: Hashable,
    leading: Callable[..., Select[Any]] | None = None,
) -> Iterator[str]:
    """Read a page by its first statement; if that could not take all of it, settle its rows and read them in parts.

    A page of leading rows only is read by their statement."""
    keys: Sequence[Any] = ()
    values = {**params, "offset": page.offset}
    beginning = _first(page)
    total = db.totals.get(subject) if page.offset >= 0 and beginning.limit == page.limit else None
    with db.autocommit() as tx:
        bounds = {**values, "part_bytes": PART_BYTES}
        result = None
        if leading is not None and page.offset >= 0 and beginning.limit == page.limit:
            result = tx.execute(leading(beginning, counted=total is None), bounds).one()
        if result is None or result.found != beginning.most:
            result = tx.execute(first(beginning, counted=total is None), bounds).one()
        if total is None:
            db.totals.keep(subject, result.total)
            pagination = page.pagination(result.total)
        else:
            pagination = page.pagination(page.corrected_total(total, result.found))
        if pagination["endIndex"] - pagination["startIndex"] > result.taken:
            keys = tx.execute(listed().keys(page), values).scalars().all()
    before, after = f'{{"{name}":[', f'],"pagination":{as_json(pagination)}}}'
    if not keys:
        yield f"{before}{result.items or ''}{after}"
        return
    yield before
    separator = ""
    for items in _parts(db, listed().part(), keys, params):
        yield separator + items
        separator = ","
    yield after


def _parts(
    db: Database, statement: Select[Any], keys: Sequence[Any], params: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the rows with these keys, as many at a time as their size allows."""
    start, rows = 0, PART
    while start < len(keys):
        part = keys[start : start + rows]
        with db.autocommit() as tx:
            result = tx.execute(statement, {**params, "part_bytes": PART_BYTES, "keys": part}).one()
        if result.items:  # unless all were deleted meanwhile
            yield result.items
        is_whole = result.taken == result.found
        start += len(part) if is_whole else result.last
        rows = min(PART, 2 * (len(part) if is_whole else result.taken))


_OFFSET = bindparam("offset", type_=Integer)


def one_of(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Compare a column with a list, which is the parameter of that name."""
    return column == any_(bindparam(name, type_=ARRAY(column.type)))


def in_states(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Compare a state with the parameter `states`, which has names of the column's type only."""
    # Compared as its own type, and not as text, the column is found in indexes.
    kind = column.type.name  # type: ignore[attr-defined]
    return column == func.any(text(f"cast(:states AS {kind}[])"))


def has_text(
    column: ColumnElement[Any], searched: "str | BindParameter[str]"
) -> ColumnElement[bool]:
    """Look for a text in a column, in upper or lower case. `%` and `_` stand for themselves.

    LIKE finds the rows by an index of trigrams; strpos would read all of them."""
    text = func.lower(searched)
    for special in ("\\", "%", "_"):
        text = func.replace(text, special, f"\\{special}")
    return func.lower(column).like(func.concat("%", text, "%"))


def owner_filters(table: FromClause, owners: FromClause = users) -> dict[str, ColumnElement[bool]]:
    """Return the filters of objects that have a name and an owner."""
    return {
        "name": has_text(table.c.name, bindparam("name", type_=Text())),
        "users": one_of(owners.c.username, "users"),
        "user_ids": one_of(table.c.user_id, "user_ids"),
    }


def label_filters(table: FromClause) -> dict[str, ColumnElement[bool]]:
    """Return the filters of objects that can be described, labelled and archived."""
    return {
        "description": has_text(table.c.description, bindparam("description", type_=Text())),
        "labels": table.c.labels.op("@>")(bindparam("labels", type_=ARRAY(Text))),
        "archived": table.c.archived == bindparam("archived"),
    }
