"""Google Compute Engine for tests: its state and answers for the official client library."""

from tests.support.fake_gce.cloud import FakeGce
from tests.support.fake_gce.errors import GceError, denied, quota, stockout, throttled
from tests.support.fake_gce.http import serving

__all__ = ["FakeGce", "GceError", "denied", "quota", "serving", "stockout", "throttled"]
