"""The tour of the SDK in examples/sdk_tour: strictly typed, and complete although a fifth of all answers is lost."""

import importlib.util
import inspect
import os
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from determined.common.http import ConflictError, NotFoundError
from determined.experimental import client
from determined.experimental.client._creation import create

from tests.support.api import PASSWORD, Api, Caller
from tests.support.lossy_proxy import lossy_proxy
from tests.support.served_api import served

TOUR = Path(__file__).resolve().parents[2] / "examples/sdk_tour/tour.py"
# Values that users choose, such as metadata and hyperparameters, are any JSON.
JSON = typing.Dict[str, Any]  # noqa: UP006


@pytest.fixture
def tour() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sdk_tour", TOUR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tour_passes_mypy_strict_against_the_installed_package(tmp_path: Path) -> None:
    """Check it without the configuration of this repository, as users do."""
    environ = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), str(TOUR)],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.stdout.strip() == "Success: no issues found in 1 source file"


def test_mypy_rejects_a_wrong_use_of_the_sdk(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        "from determined.experimental import client\n"
        "number: int = client.get_experiment(1).name\n"
        "client.get_trial('1')\n"
        "state: client.TrialState = client.get_experiment(1).wait()\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), str(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert [line.split(":")[1] for line in result.stdout.splitlines()[:3]] == ["2", "3", "4"]


def public_functions() -> dict[str, Any]:
    """Return the functions of the module and the methods of its classes, without private ones."""
    found: dict[str, Any] = {}
    for name, value in vars(client).items():
        if name.startswith("_") or not getattr(value, "__module__", "").startswith("determined"):
            continue
        if inspect.isfunction(value):
            found[name] = value
        elif inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            found |= {f"{name}.{n}": m for n, m in methods if not n.startswith("_")}
    return found


def test_no_public_signature_has_a_bare_any() -> None:
    functions = public_functions()
    assert len(functions) > 100
    wrong = []
    for name, function in functions.items():
        hints = typing.get_type_hints(function)
        parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
        if "return" not in hints or parameters - hints.keys():
            wrong.append(f"{name} lacks types")
        wrong += [
            f"{name}: {n}"
            for n, hint in hints.items()
            if hint is Any or (Any in typing.get_args(hint) and hint != JSON)
        ]
    assert wrong == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tour_succeeds_although_a_fifth_of_all_answers_is_lost(
    api: Api, admin: Caller, tour: ModuleType, seed: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(client, "_connection", None)
    for module in ("http", "log_stream"):
        monkeypatch.setattr(f"determined.common.{module}.FIRST_PAUSE_S", 0.001)
        monkeypatch.setattr(f"determined.common.{module}.LONGEST_PAUSE_S", 0.001)
    monkeypatch.setenv("HOME", str(tmp_path))
    with served(api) as target, lossy_proxy(target, 0.0, seed) as (address, proxy):
        monkeypatch.setenv("DET_MASTER", address)
        monkeypatch.setenv("DET_USER", "admin")
        monkeypatch.setenv("DET_PASS", PASSWORD)
        client.whoami()  # the first call of a program is not repeated
        proxy.loss = 0.2
        assert tour.main() == 0
    assert proxy.lost >= 5
    printed = capsys.readouterr().out
    assert "1 experiment with this name" in printed
    assert "ended as CANCELED" in printed
    assert "status 404" in printed


class RefusingSession:
    """A session whose POST is refused with 409."""

    username = "ada"

    def __init__(self, *, after_lost_response: bool) -> None:
        self.error = ConflictError(409, "model 'm' already exists")
        self.error.after_lost_response = after_lost_response

    def post(self, path: str, body: object) -> Any:
        raise self.error


@pytest.mark.parametrize(("lost", "creator"), [(False, "ada"), (True, "grace")])
def test_an_object_that_this_user_did_not_just_create_stays_a_conflict(
    lost: bool, creator: str
) -> None:
    session: Any = RefusingSession(after_lost_response=lost)
    with pytest.raises(ConflictError):
        create(session, "/models", {}, "model", lambda: {"username": creator})


def test_a_deletion_of_a_missing_object_stays_an_error(
    api: Api, admin: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with served(api) as address:
        connection = client.Determined(address, "admin", PASSWORD)
        model = connection.create_model("m")
        model.delete()
        with pytest.raises(NotFoundError):
            model.delete()
