import collections
import json
import pathlib
import pickle
from typing import Any

import numpy
import pytest
import torch
from determined import pytorch
from determined.pytorch import Batch, UntrustedCheckpointError, _state

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import NoisyTrial, PlainTrial, fit


class Exploding:
    """An object that runs code when it is unpickled."""

    ran = False

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> str:
    Exploding.ran = True
    return "ran"


class Custom:
    """A custom object of the user."""


def round_trip(tmp_path: pathlib.Path, value: Any, trusted: bool = False) -> Any:
    path = str(tmp_path / "state.pth")
    torch.save(_state.encode(value, _state.host_copy()), path)
    return _state.read(path, trusted)


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "b": [1, 2.5, None, True], ("c", 1): (1,)},
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=5),
        collections.defaultdict(list, {"a": [1]}),
        {1, 2},
        b"bytes",
        complex(1, 2),
        torch.float16,
        torch.device("cpu"),
        torch.Size([2, 3]),
        numpy.float64(1.5),
        {"__determined_type__": "numpy"},
    ],
)
def test_plain_and_common_values_are_restored(tmp_path: pathlib.Path, value: Any) -> None:
    copy = round_trip(tmp_path, value)
    assert copy == value
    assert type(copy) is type(value)


def test_arrays_are_restored(tmp_path: pathlib.Path) -> None:
    array: Any = numpy.arange(6, dtype="int16").reshape(2, 3)
    copy = round_trip(tmp_path, {"a": array})["a"]
    assert (copy.dtype, copy.tolist()) == (array.dtype, array.tolist())


def test_module_state_keeps_its_versions(tmp_path: pathlib.Path) -> None:
    state = torch.nn.BatchNorm1d(2).state_dict()
    assert round_trip(tmp_path, state)._metadata == state._metadata


def test_tied_weights_are_stored_once(tmp_path: pathlib.Path) -> None:
    weight = torch.randn(50_000)
    round_trip(tmp_path, {"a": weight, "b": weight.view(500, 100).view(-1)})
    assert (tmp_path / "state.pth").stat().st_size < 1.5 * weight.numel() * 4


@pytest.mark.skipif(torch.__version__ < "2", reason="torch 1.13 refuses plain floats as well")
def test_checkpoint_loads_as_weights_only(core: FakeCore) -> None:
    fit(core, NoisyTrial, max_length=Batch(2))
    state = torch.load(core.saved()[2] / "state_dict.pth", weights_only=True)
    assert {"models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict"} <= set(state)


def test_custom_objects_need_trust(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    _state._warned.clear()
    with pytest.raises(UntrustedCheckpointError, match=r"checkpoint\['a'\].*DET_TRUST_PICKLED"):
        round_trip(tmp_path, {"a": Custom()})
    assert "checkpoint['a']" in caplog.text
    assert isinstance(round_trip(tmp_path, {"a": Custom()}, trusted=True)["a"], Custom)


def test_error_names_object_that_cannot_be_saved(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"checkpoint\['callbacks'\]\['mine'\]"):
        round_trip(tmp_path, {"callbacks": {"mine": lambda: None}})


def test_foreign_pickle_never_runs(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.pth"
    torch.save({"models_state_dict": [], "evil": Exploding()}, path)
    with pytest.raises(UntrustedCheckpointError, match="DET_TRUST_PICKLED_CHECKPOINTS"):
        _state.read(str(path), trusted=False)
    assert not Exploding.ran


def test_rejects_file_that_is_not_an_archive(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.pth"
    torch.save({"evil": Exploding()}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(UntrustedCheckpointError, match="was not loaded"):
        _state.read(str(path), trusted=False)
    assert not Exploding.ran


def test_foreign_pickle_loads_if_trusted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.pth"
    torch.save({"custom": Custom()}, path)
    assert isinstance(_state.read(str(path), False, weights_only=False)["custom"], Custom)


def test_checkpoint_of_determined_loads_without_trust(core: FakeCore) -> None:
    """Determined pickles numpy's generator state, which weights-only loading rejects."""
    fit(core, PlainTrial, max_length=Batch(3))
    path = core.saved()[3]
    state = _state.read(str(path / "state_dict.pth"), trusted=False)
    stock = {k: v for k, v in state.items() if k.endswith("state_dict")}
    stock["rng_state"] = {
        "cpu_rng_state": torch.random.get_rng_state(),
        "np_rng_state": numpy.random.get_state(),
        "random_rng_state": __import__("random").getstate(),
    }
    stock["callbacks"] = {}
    torch.save(stock, path / "state_dict.pth")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path / "state_dict.pth", weights_only=True)
    fit(core, PlainTrial, max_length=Batch(5), latest_checkpoint=str(path))
    assert [steps for steps, _, _ in core.train.training] == [3, 5]


def test_checkpoint_describes_its_trial(core: FakeCore) -> None:
    fit(core, PlainTrial, settings={"hparams": {"lr": 1}}, max_length=Batch(1))
    path = core.saved()[1]
    load = json.loads((path / "load_data.json").read_text())
    assert (load["trial_type"], load["hparams"]) == ("PyTorchTrial", {"lr": 1})
    assert load["trial_cls_spec"].endswith(":PlainTrial")
    assert (path / "code" / "torch_trials.py").exists()


def test_trial_is_loaded_with_its_weights(core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = fit(core, PlainTrial, max_length=Batch(4))
    monkeypatch.setenv("XDG_DATA_HOME", str(core.storage.parent))
    trial: Any = pytorch.load_trial_from_checkpoint_path(
        str(core.saved()[4]), trial_class=PlainTrial
    )
    assert torch.equal(trial.model.weight, trainer.model.weight)


def test_error_explains_directory_without_a_checkpoint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a downloaded checkpoint"):
        pytorch.load_trial_from_checkpoint_path(str(tmp_path))


def test_trial_is_constructed_outside_of_training() -> None:
    context = pytorch.CheckpointLoadContext(hparams={"lr": 1}, exp_conf={"data": {"rows": 3}})
    trial = PlainTrial(context)
    assert trial.model.weight.shape == (1, 2)
    assert (context.get_hparam("lr"), context.get_data_config()) == (1, {"rows": 3})
