"""Run Terraform commands and report their progress."""

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

OLDEST = (1, 10)  # the first version with S3 state locking without a DynamoDB table
_HERE = Path(__file__).resolve()
# The paths in an installed package, and in a checkout.
_PLACES = (_HERE.parent / "terraform", _HERE.parents[3] / "infra/terraform")

# Terraform events with a message that is printed unchanged.
_PRINTED = ("apply_start", "apply_complete", "apply_errored", "planned_change", "change_summary")

# Terraform's error for a state that a newer version wrote.
_NEWER_STATE = re.compile(r"state snapshot was created by Terraform v(\d[\w.]*\w)")

# Terraform's error if it cannot download a provider.
_NO_PROVIDER = re.compile(r"Failed to (?:query available provider packages|install provider)")

# Terraform's error if the checksum of a provider is not in the lock file.
_OTHER_PROVIDER = re.compile(r"does(?:n't| not) match any of the checksums")

# Errors of AWS and Google for expired credentials.
_EXPIRED = re.compile(
    r"\bExpiredToken|token included in the request is expired|invalid_grant|Reauthentication is needed"
)

# Remedies for restrictions of an account, by a part of the cloud's message.
_REMEDIES = {
    "FreeTierRestrictionError": "upgrade the account from AWS's free plan in the billing console",
    "Your account must be verified before you can add": (
        "ask AWS Support to verify the account for CloudFront, which the relay needs (new accounts are not"
        " verified), or disable the relay with --var relay=false,"
    ),
}


def stacks() -> Path:
    """Return the folder of Terraform's root stacks."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        raise CommandError(
            "the Terraform stacks are missing in this installation", "install it again"
        )
    return folder


@dataclass(frozen=True)
class Backend:
    """A Terraform backend for states."""

    kind: str  # the Terraform name of the backend type
    settings: Mapping[str, str]


class Terraform:
    """Runs Terraform for a root stack in a working folder."""

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
        # Terraform writes next to the configuration, so it needs a copy: the installation may be read-only.
        shutil.copytree(stacks(), folder / "stacks", dirs_exist_ok=True)
        self.stack = folder / "stacks" / stack

    def init(self, backend: Backend | None) -> None:
        """Download providers and read the state from the backend, or from the working folder without a backend."""
        local = Backend("local", {"path": str(self._folder / "terraform.tfstate")})
        active = backend or local
        (self.stack / "backend.tf").write_text(
            f'terraform {{\n  backend "{active.kind}" {{}}\n}}\n'
        )
        flags = [f"-backend-config={name}={value}" for name, value in active.settings.items()]
        with terraform_release.alone():
            self._run("init", "-reconfigure", "-no-color", *flags)

    def apply(self, variables: Mapping[str, Any], say: Say, only: Sequence[str] = ()) -> None:
        """Apply the stack, or only some resources and their dependencies."""
        targets = [f"-target={address}" for address in only]
        self._streamed(say, "apply", "-auto-approve", self._variables(variables), *targets)

    def destroy(self, variables: Mapping[str, Any], say: Say, only: Sequence[str] = ()) -> None:
        """Destroy the stack, or only some resources and their dependents."""
        targets = [f"-target={address}" for address in only]
        self._streamed(say, "destroy", "-auto-approve", self._variables(variables), *targets)

    def plan(self, variables: Mapping[str, Any], say: Say) -> None:
        self._streamed(say, "plan", self._variables(variables))

    def resources(self) -> list[str]:
        """Return the addresses of existing resources, without indices."""
        return list(self._state())

    def attributes(self, address: str) -> dict[str, Any]:
        """Return the attributes of an existing resource, including secrets."""
        attributes: dict[str, Any] = self._state()[address]["instances"][0]["attributes"]
        return attributes

    def _state(self) -> dict[str, Any]:
        state = json.loads(self._run("state", "pull").strip() or "{}")
        return {
            f"{resource.get('module', '')}.{resource['type']}.{resource['name']}".lstrip(
                "."
            ): resource
            for resource in state.get("resources", ())
            if resource["mode"] == "managed" and resource["instances"]
        }

    def forget(self, addresses: Sequence[str]) -> None:
        """Remove resources from the state without deleting them."""
        if addresses:
            self._run("state", "rm", *addresses)

    def import_resource(self, address: str, cloud_id: str) -> None:
        """Import an existing resource at the next apply. `terraform import` fails for an empty stack."""
        block = f"import {{\n  to = {address}\n  id = {json.dumps(cloud_id)}\n}}\n"
        (self.stack / "taken-over.tf").write_text(block)

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of the stack, or {} if it was never applied."""
        values = json.loads(self._run("output", "-json"))
        return {name: output["value"] for name, output in values.items()}

    def _variables(self, variables: Mapping[str, Any]) -> str:
        """Write the variables to a file that only this user can read, because some are secret."""
        path = self._folder / "variables.tfvars.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(variables))
        return f"-var-file={path}"

    def _run(self, *arguments: str) -> str:
        result = subprocess.run(
            [self._binary, *arguments], cwd=self.stack, env=self._environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            raise _command_error(arguments[0], _first_error(result.stderr), result.stderr)
        return result.stdout

    def _streamed(self, say: Say, *arguments: str) -> None:
        errors: list[str] = []
        with subprocess.Popen(
            [self._binary, arguments[0], "-json", *arguments[1:]], cwd=self.stack, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    errors += _handle_event(line, say)
            except KeyboardInterrupt:
                process.communicate()  # Terraform also receives Ctrl-C, finishes running changes and stores the state
                raise CommandError(
                    f"stopped during terraform {arguments[0]}",
                    "run the same command again to continue",
                ) from None
        if process.returncode != 0:
            cause = "; ".join(dict.fromkeys(errors)) or "it reported no reason"
            raise _command_error(arguments[0], cause, cause)


def _command_error(verb: str, cause: str, output: str) -> CommandError:
    """Return the error for a failed command. Common failures have a specific message and hint."""
    plain = " ".join(output.replace("│", " ").split())
    if "Error acquiring the state lock" in plain:
        lock = {name: value[1] for name, value in _lock_of(plain).items() if value}
        return CommandError(
            f"another deployment of this cluster is running: {lock.get('Who', 'an unknown user')}"
            f" since {lock.get('Created', 'an unknown time')}",
            "wait until it has ended; if it crashed, delete the file"
            f" {_lock_file(lock.get('Path'))} and run the same command again",
        )
    newer = _NEWER_STATE.search(plain)
    if newer:
        return CommandError(
            f"this cluster was last deployed with Terraform {newer[1]}, which is newer than the one here",
            f"install Terraform {newer[1]} or newer, or set DET_TERRAFORM to its path",
        )
    if _EXPIRED.search(plain):
        return CommandError(
            f"the cloud credentials expired during terraform {verb}",
            "sign in again and run the same command again to continue",
        )
    if _OTHER_PROVIDER.search(plain):
        return CommandError(
            "the Terraform provider has another checksum than the provider of the previous deployment",
            "if it comes from your own mirror, delete the cluster's provider-lock.json in the state bucket and"
            " run the same command again; otherwise do not trust it",
        )
    if _NO_PROVIDER.search(plain):
        return CommandError(
            f"terraform {verb} failed: {cause}",
            "give this machine access to registry.terraform.io (HTTPS_PROXY sets a proxy), or set a provider mirror"
            " with TF_CLI_CONFIG_FILE, and run the same command again",
        )
    remedy = next((remedy for text, remedy in _REMEDIES.items() if text in plain), "fix the cause")
    return CommandError(
        f"terraform {verb} failed: {cause}", f"{remedy} and run the same command again to continue"
    )


def _lock_file(path: "str | None") -> str:
    """Return the lock file of a state. Google's backend reports the lock file, S3's the state."""
    return f"{(path or 'of the state').removesuffix('.tflock')}.tflock"


def _lock_of(output: str) -> dict[str, "re.Match[str] | None"]:
    return {
        "Who": re.search(r"Who: +(\S+)", output),
        "Created": re.search(r"Created: +(\S+ \S+?)(?:\.\d+)? ", output),
        "Path": re.search(r"Path: +(\S+)", output),
    }


def _handle_event(line: str, say: Say) -> Iterator[str]:
    """Print the progress in an output line, and yield the error in it."""
    try:
        event = json.loads(line)
    except ValueError:
        return
    kind, message = event.get("type"), str(event.get("@message", ""))
    if kind in _PRINTED or (kind == "apply_progress" and _is_full_minute(event)):
        say(message)
    elif kind == "diagnostic" and event["diagnostic"]["severity"] == "error":
        diagnostic = event["diagnostic"]
        yield " ".join(f"{diagnostic['summary']}: {diagnostic.get('detail', '')}".split())


def _is_full_minute(event: Mapping[str, Any]) -> bool:
    """Return True once per minute of progress, because Terraform reports progress every ten seconds."""
    return int(event["hook"]["elapsed_seconds"]) % 60 == 0


def _first_error(text: str) -> str:
    lines = [line.strip(" │╷╵") for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.startswith("Error:")), 0)
    return " ".join(line for line in lines[start : start + 6] if line)


def _find() -> str:
    minimum = ".".join(map(str, OLDEST))
    binary = os.environ.get("DET_TERRAFORM") or shutil.which("terraform")
    if not binary:
        return terraform_release.ensure()
    try:
        result = subprocess.run(
            [binary, "version", "-json"], capture_output=True, text=True, check=False
        )
    except OSError as e:
        raise CommandError(
            f"{binary} cannot be started: {e.strerror}", "check that it is Terraform"
        ) from e
    try:
        version = json.loads(result.stdout)["terraform_version"]
    except (ValueError, KeyError):
        raise CommandError(f"{binary} reports no version", "check that it is Terraform") from None
    if tuple(int(part) for part in _digits(version)[:2]) < OLDEST:
        raise CommandError(f"Terraform {version} is too old", f"install {minimum} or newer")
    return binary


def _digits(version: str) -> Sequence[str]:
    return [part for part in version.replace("-", ".").split(".") if part.isdigit()]
