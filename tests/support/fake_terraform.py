"""A program in place of Terraform: it records its calls and follows the script of a test."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import eventually

# Without site-packages it starts in a third of the time.
_PROGRAM = """#!{python} -IS
import json, os, signal, sys, pathlib
folder = pathlib.Path({folder!r})
verb, words = sys.argv[1], sys.argv[2:]
given = next((w.partition("=")[2] for w in words if w.startswith("-var-file=")), "")
told = json.loads(pathlib.Path(given).read_text()) if given else {{}}
with (folder / "calls").open("a") as calls:
    told_by = {{"profile": "AWS_PROFILE", "plugins": "TF_PLUGIN_CACHE_DIR"}}
    told_by = {{key: os.environ.get(name, "") for key, name in told_by.items()}}
    imports = pathlib.Path("taken-over.tf")
    told_by["taken_over"] = imports.read_text() if imports.exists() else ""
    lock = pathlib.Path(".terraform.lock.hcl")
    told_by["lock"] = lock.read_text() if lock.exists() else ""
    calls.write(json.dumps({{"verb": verb, "words": words, "variables": told, **told_by}}) + "\\n")
plan = json.loads((folder / "plan").read_text())
answer = plan.get(verb if verb != "state" else "state " + words[0], {{}})
if isinstance(answer, list):
    made = [json.loads(line)["verb"] for line in (folder / "calls").read_text().splitlines()]
    answer = answer[min(made.count(verb), len(answer)) - 1]
if answer.get("waits"):
    def stop(*_):
        (folder / "stopped").touch()
        sys.exit(1)
    signal.signal(signal.SIGINT, stop)
    (folder / "waits").touch()
    print(json.dumps({{"type": "apply_start", "@message": "database: Creating..."}}), flush=True)
    signal.pause()
if "locks" in answer:
    lock.write_text(answer["locks"])
print(answer.get("out", ""))
print(answer.get("err", ""), file=sys.stderr)
sys.exit(answer.get("code", 0))
"""


@dataclass(frozen=True)
class FakeTerraform:
    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "terraform"

    def answers(self, **by_verb: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Store the answers of verbs: `out`, `err`, `code`, or `waits` for an interruption.

        Terraform repeats the last of several answers."""
        plan = {"version": {"out": '{"terraform_version": "1.11.4"}'}, **by_verb}
        plan = {verb.replace("_", " "): answer for verb, answer in plan.items()}
        (self.folder / "plan").write_text(json.dumps(plan))

    def calls(self, *verbs: str) -> list[dict[str, Any]]:
        """Return the calls of some verbs, with their variables."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        document = [json.loads(line) for line in lines]
        return [call for call in document if call["verb"] in verbs]

    def until_called(self) -> None:
        """Wait until a call that waits for an interruption does so."""
        assert eventually((self.folder / "waits").exists), "Terraform was not called"


def fake_terraform(folder: Path, patch: pytest.MonkeyPatch) -> FakeTerraform:
    """Put the program where `det deploy` looks first."""
    folder.mkdir()
    fake = FakeTerraform(folder)
    fake.program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
    fake.program.chmod(0o755)
    patch.setenv("DET_TERRAFORM", str(fake.program))
    fake.answers()
    return fake


def error_event(summary: str, detail: str) -> str:
    """Return an error as Terraform prints it to programs."""
    diagnostic = {"severity": "error", "summary": summary, "detail": detail}
    event = {"type": "diagnostic", "@message": f"Error: {summary}", "diagnostic": diagnostic}
    return json.dumps(event)
