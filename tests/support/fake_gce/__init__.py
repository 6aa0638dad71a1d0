"""Google Compute Engine for tests: what its API keeps and answers, for the client library that users have."""

from tests.support.fake_gce.cloud import FakeGce
from tests.support.fake_gce.errors import GceError, denied, quota, stockout, throttled
from tests.support.fake_gce.http import serving

__all__ = ["FakeGce", "GceError", "denied", "quota", "serving", "stockout", "throttled"]
