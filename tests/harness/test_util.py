"""Functions of determined.util."""

from pathlib import Path

import determined as det
import pytest
from determined.errors import InvalidHP


def test_batch_size_is_divided_by_slots_and_rounded_down() -> None:
    sizes = det.util.calculate_batch_sizes
    assert sizes({"global_batch_size": 16}, 4, "T") == (4, 16)
    assert sizes({"global_batch_size": 10}, 4, "T") == (2, 8)
    assert sizes({"global_batch_size": 3}, 0, "T") == (3, 3)


@pytest.mark.parametrize("hparams", [{}, {"global_batch_size": 2}])
def test_rejects_batch_size_smaller_than_the_slots(
    hparams: "dict[str, int]",
) -> None:
    with pytest.raises(InvalidHP, match="global_batch_size"):
        det.util.calculate_batch_sizes(hparams, 4, "MyTrial")


def test_merging_does_not_change_its_arguments() -> None:
    base, more = {"a": {"b": 1, "c": 2}, "e": 5}, {"a": {"b": 3}, "d": 4, "e": {"f": 6}}
    assert det.util.merge_dicts(base, more) == {"a": {"b": 3, "c": 2}, "d": 4, "e": {"f": 6}}
    assert base["a"] == {"b": 1, "c": 2}


def test_distinguishes_overridden_and_inherited_methods() -> None:
    class Parent:
        def one(self) -> None: ...

        def two(self) -> None: ...

    class Child(Parent):
        def one(self) -> None: ...

    assert det.util.is_overridden(Child().one, Parent)
    assert not det.util.is_overridden(Child().two, Parent)


def test_link_replaces_existing_file(tmp_path: Path) -> None:
    place = tmp_path / "latest"
    place.write_text("old")
    for target in ("one", "two"):
        det.util.force_create_symlink(str(tmp_path / target), str(place))
    assert place.readlink() == tmp_path / "two"


class _Blob:
    def __init__(self, codes: "list[int]") -> None:
        self.codes = codes

    def download_as_bytes(self) -> bytes:
        if self.codes:
            error = OSError("busy")
            error.code = self.codes.pop(0)  # type: ignore[attr-defined]
            raise error
        return b"data"


def test_busy_bucket_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    assert det.util.download_gcs_blob_with_backoff(_Blob([429, 503])) == b"data"
    assert len(waits) == 2


def test_permanent_error_is_raised() -> None:
    with pytest.raises(OSError, match="busy"):
        det.util.download_gcs_blob_with_backoff(_Blob([403]))
