"""Read the logs of a trial."""

from datetime import datetime, timezone
from typing import Any, Dict, Iterator, Optional, Union

from determined.common import log_stream
from determined.common.http import Session
from determined.common.times import written

Timestamp = Union[int, str, None]


def lines(
    session: Session,
    trial_id: int,
    filters: Dict[str, Any],
    follow: bool,
    head: Optional[int],
    tail: Optional[int],
) -> Iterator[Dict[str, Any]]:
    """Yield matching lines: the first, the last or all of them. With `follow`, continue until the trial ends."""
    path = f"/trials/{trial_id}"
    if head is not None:
        yield from log_stream.head(session, path, filters, head)
        return
    if follow:
        ended, earlier_lines = log_stream.trial_ended(session, trial_id), None
        if tail is not None:
            earlier, earlier_lines = log_stream.tail_to_follow(session, path, filters, tail)
            yield from earlier
        yield from log_stream.follow(session, path, filters, ended, earlier_lines)
    elif tail is not None:
        yield from log_stream.tail(session, path, filters, tail)
    else:
        yield from log_stream.fetch(session, path, filters)


def timestamp(moment: Timestamp) -> Optional[str]:
    """Return a time as RFC 3339. A number counts seconds since 1970."""
    if not isinstance(moment, int):
        return moment
    return written(datetime.fromtimestamp(moment, timezone.utc))
