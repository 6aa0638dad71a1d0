"""Run Terraform: found on this machine, told what it needs, and read line by line."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_cli.deployment import terraform_release
from det_cli.errors import CommandError
from det_cli.render import Say

OLDEST = (1, 10)  # the first whose backend for S3 locks a state without a table of DynamoDB
_HERE = Path(__file__).resolve()
# In a checkout the stacks stand beside the packages, in an installed distribution within this one.
_PLACES = (_HERE.parent / "terraform", _HERE.parents[3] / "infra/terraform")

# Events of Terraform that are passed on as they are.
_TOLD = ("apply_start", "apply_complete", "apply_errored", "planned_change", "change_summary")

# Of Terraform, when a state was written by a newer one than reads it.
_NEWER_STATE = re.compile(r"state snapshot was created by Terraform v(\d[\w.]*\w)")

# Of Terraform, when it cannot fetch the provider of a cloud.
_NO_PROVIDER = re.compile(r"Failed to (?:query available provider packages|install provider)")

# Terraform's error if the checksum of a provider is not in the lock file.
_OTHER_PROVIDER = re.compile(r"does(?:n't| not) match any of the checksums")

# Of AWS, and of Google.
_EXPIRED = re.compile(
    r"\bExpiredToken|token included in the request is expired|invalid_grant|Reauthentication is needed"
)

# Remedies for an account that a cloud refuses, by a part of the cloud's message.
_REMEDIES = {
    "FreeTierRestrictionError": "upgrade the account from AWS's free plan in the billing console",
    "Your account must be verified before you can add": (
        "ask AWS Support to verify the account for CloudFront, which carries the relay's traffic (new accounts"
        " are not), or leave the relay out by --var relay=false,"
    ),
}


def stacks() -> Path:
    """Return the folder of Terraform's root stacks."""
    found = next((place for place in _PLACES if place.is_dir()), None)
    if found is None:
        raise CommandError(
            "the Terraform stacks are missing in this installation", "install it again"
        )
    return found


@dataclass(frozen=True)
class Backend:
    """A bucket with states."""

    kind: str  # as Terraform calls it
    settings: Mapping[str, str]


class Terraform:
    """A root stack with its own working folder, which keeps plugins and the lock file out of the stack."""

    def __init__(
        self, stack: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._binary = _find()
        self._folder = folder
        self._environment = {
            **terraform_release.plugins(),
            **os.environ,
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            **(environment or {}),
        }
        # A copy: Terraform writes beside the configuration, and the installation may be read-only.
        shutil.copytree(stacks(), folder / "stacks", dirs_exist_ok=True)
        self.stack = folder / "stacks" / stack

    def init(self, backend: Backend | None) -> None:
        """Fetch providers and read the state, which is kept in a bucket, or in the working folder without one."""
        here = Backend("local", {"path": str(self._folder / "terraform.tfstate")})
        used = backend or here
        (self.stack / "backend.tf").write_text(f'terraform {{\n  backend "{used.kind}" {{}}\n}}\n')
        flags = [f"-backend-config={name}={value}" for name, value in used.settings.items()]
        with terraform_release.alone():
            self._run("init", "-reconfigure", "-no-color", *flags)

    def apply(self, variables: Mapping[str, Any], say: Say, only: Sequence[str] = ()) -> None:
        """Make the stack what its configuration says, or only some resources and what these need."""
        targets = [f"-target={address}" for address in only]
        self._streamed(say, "apply", "-auto-approve", self._variables(variables), *targets)

    def destroy(self, variables: Mapping[str, Any], say: Say, only: Sequence[str] = ()) -> None:
        """Remove the stack, or only some resources and what needs these."""
        targets = [f"-target={address}" for address in only]
        self._streamed(say, "destroy", "-auto-approve", self._variables(variables), *targets)

    def plan(self, variables: Mapping[str, Any], say: Say) -> None:
        self._streamed(say, "plan", self._variables(variables))

    def resources(self) -> list[str]:
        """Return the addresses of what exists, without the indices of those that are several."""
        return list(self._state())

    def attributes(self, address: str) -> dict[str, Any]:
        """Return what the state tells of a resource that exists, secrets as well."""
        found: dict[str, Any] = self._state()[address]["instances"][0]["attributes"]
        return found

    def _state(self) -> dict[str, Any]:
        state = json.loads(self._run("state", "pull").strip() or "{}")
        return {
            f"{found.get('module', '')}.{found['type']}.{found['name']}".lstrip("."): found
            for found in state.get("resources", ())
            if found["mode"] == "managed" and found["instances"]
        }

    def forget(self, addresses: Sequence[str]) -> None:
        """Leave resources where they are, and know nothing of them any more."""
        if addresses:
            self._run("state", "rm", *addresses)

    def take_over(self, address: str, cloud_id: str) -> None:
        """Let the next apply know of a resource that exists; `import` itself refuses a stack of which nothing is."""
        block = f"import {{\n  to = {address}\n  id = {json.dumps(cloud_id)}\n}}\n"
        (self.stack / "taken-over.tf").write_text(block)

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of the stack; none if it was never applied."""
        found = json.loads(self._run("output", "-json"))
        return {name: output["value"] for name, output in found.items()}

    def _variables(self, variables: Mapping[str, Any]) -> str:
        """Write variables to a file only this user can read: some are secret."""
        path = self._folder / "variables.tfvars.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(variables))
        return f"-var-file={path}"

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._binary, *arguments], cwd=self.stack, env=self._environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise _failed(arguments[0], _first_error(done.stderr), done.stderr)
        return done.stdout

    def _streamed(self, say: Say, *arguments: str) -> None:
        errors: list[str] = []
        with subprocess.Popen(
            [self._binary, arguments[0], "-json", *arguments[1:]], cwd=self.stack, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    errors += _said(line, say)
            except KeyboardInterrupt:
                process.communicate()  # Terraform hears the same Ctrl-C, ends what it has begun and stores the state
                raise CommandError(
                    f"stopped in the middle of terraform {arguments[0]}",
                    "run the same command again: it goes on",
                ) from None
        if process.returncode != 0:
            cause = "; ".join(dict.fromkeys(errors)) or "it gave no reason"
            raise _failed(arguments[0], cause, cause)


def _failed(verb: str, cause: str, told: str) -> CommandError:
    """Return the failure of a command; what an operator meets without having done wrong has a sentence of its own."""
    plain = " ".join(told.replace("│", " ").split())
    if "Error acquiring the state lock" in plain:
        found = {name: value[1] for name, value in _lock_of(plain).items() if value}
        return CommandError(
            f"another deployment of this cluster is at work: {found.get('Who', 'somebody')}"
            f" since {found.get('Created', 'an unknown time')}",
            "wait until it has ended; if it died, delete the file"
            f" {_lock_file(found.get('Path'))}, and run the same command again",
        )
    newer = _NEWER_STATE.search(plain)
    if newer:
        return CommandError(
            f"this cluster was last deployed with Terraform {newer[1]}, which is newer than the one here",
            f"install Terraform {newer[1]} or newer, or name it by DET_TERRAFORM",
        )
    if _EXPIRED.search(plain):
        return CommandError(
            f"the sign-in at the cloud expired in the middle of terraform {verb}",
            "sign in again and run the same command: it goes on",
        )
    if _OTHER_PROVIDER.search(plain):
        return CommandError(
            "the provider here is not the one that this cluster was deployed with: its checksum is another",
            "if it comes from a mirror of yours, delete provider-lock.json of the cluster in the bucket of states and"
            " run the same command again; otherwise do not trust it",
        )
    if _NO_PROVIDER.search(plain):
        return CommandError(
            f"terraform {verb} failed: {cause}",
            "let this machine reach registry.terraform.io (HTTPS_PROXY names a proxy), or name a mirror of providers"
            " by TF_CLI_CONFIG_FILE, and run the same command again",
        )
    remedy = next((remedy for said, remedy in _REMEDIES.items() if said in plain), "fix the cause")
    return CommandError(
        f"terraform {verb} failed: {cause}", f"{remedy} and run the same command again: it goes on"
    )


def _lock_file(path: "str | None") -> str:
    """Return the file that locks a state: Google's backend names it, S3's names the state."""
    return f"{(path or 'of the state').removesuffix('.tflock')}.tflock"


def _lock_of(told: str) -> dict[str, "re.Match[str] | None"]:
    return {
        "Who": re.search(r"Who: +(\S+)", told),
        "Created": re.search(r"Created: +(\S+ \S+?)(?:\.\d+)? ", told),
        "Path": re.search(r"Path: +(\S+)", told),
    }


def _said(line: str, say: Say) -> Iterator[str]:
    """Pass on what was done, and return what went wrong."""
    try:
        event = json.loads(line)
    except ValueError:
        return
    kind, message = event.get("type"), str(event.get("@message", ""))
    if kind in _TOLD or (kind == "apply_progress" and _is_a_full_minute(event)):
        say(message)
    elif kind == "diagnostic" and event["diagnostic"]["severity"] == "error":
        diagnostic = event["diagnostic"]
        yield " ".join(f"{diagnostic['summary']}: {diagnostic.get('detail', '')}".split())


def _is_a_full_minute(event: Mapping[str, Any]) -> bool:
    """Tell whether a resource has been in the making for some full minutes: Terraform says so every ten seconds."""
    return int(event["hook"]["elapsed_seconds"]) % 60 == 0


def _first_error(text: str) -> str:
    lines = [line.strip(" │╷╵") for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.startswith("Error:")), 0)
    return " ".join(line for line in lines[start : start + 6] if line)


def _find() -> str:
    wanted = ".".join(map(str, OLDEST))
    binary = os.environ.get("DET_TERRAFORM") or shutil.which("terraform")
    if not binary:
        return terraform_release.fetched()
    try:
        done = subprocess.run(
            [binary, "version", "-json"], capture_output=True, text=True, check=False
        )
    except OSError as e:
        raise CommandError(f"{binary} cannot be started: {e.strerror}", "is it Terraform?") from e
    try:
        version = json.loads(done.stdout)["terraform_version"]
    except (ValueError, KeyError):
        raise CommandError(f"{binary} does not tell its version", "is it Terraform?") from None
    if tuple(int(part) for part in _digits(version)[:2]) < OLDEST:
        raise CommandError(f"Terraform {version} is too old", f"install {wanted} or newer")
    return binary


def _digits(version: str) -> Sequence[str]:
    return [part for part in version.replace("-", ".").split(".") if part.isdigit()]
