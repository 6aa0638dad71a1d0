"""Read listings page by page, from the first row to the last (docs/reference/compatibility.md#listings)."""

from typing import Any, Callable, Iterator, Mapping, Optional

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
    """Yield every row, starting at `offset`. `limit` is the page size."""

    def fetch(page: Mapping[str, int]) -> Any:
        return session.get(V1 + path, {**(params or {}), **page})

    return each_page(fetch, key, limit=limit, offset=offset, one_page=one_page)


def each_page(
    fetch: Callable[[Mapping[str, int]], Any],
    key: str,
    *,
    limit: int = 200,
    offset: int = 0,
    one_page: bool = False,
) -> Iterator[Any]:
    """Yield every row of the pages that `fetch` returns for a limit and an offset."""
    while True:
        answer = fetch({"limit": limit, "offset": offset})
        yield from answer.get(key) or []
        page = answer.get("pagination") or {}
        end = int(page.get("endIndex") or 0)
        if one_page or end <= offset or end >= int(page.get("total") or 0):
            return
        offset = end
