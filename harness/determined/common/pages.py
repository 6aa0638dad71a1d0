"""Read listings page by page, from the first row to the last (docs/reference/compatibility.md#listings)."""

from typing import Any, Iterator, Mapping, Optional

from determined.common.http import Session

V1 = "/api/v1"


def pages(
    session: Session,
    path: str,
    key: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    limit: int = 200,
    offset: int = 0,
    one_page: bool = False,
) -> Iterator[Any]:
    """Yield every row from `offset` on; `limit` is the size of a page."""
    while True:
        answer = session.get(V1 + path, {**(params or {}), "limit": limit, "offset": offset})
        yield from answer.get(key) or []
        page = answer.get("pagination") or {}
        end = int(page.get("endIndex") or 0)
        if one_page or end <= offset or end >= int(page.get("total") or 0):
            return
        offset = end
