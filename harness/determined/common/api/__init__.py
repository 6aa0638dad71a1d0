"""Names under which Determined's users catch errors of the API."""

from determined.common.api import errors

__all__ = ["errors"]
