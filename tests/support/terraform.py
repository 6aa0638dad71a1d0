"""Terraform on copies of our stacks, without any cloud or registry."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import skips

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra/terraform"
# A folder in the layout of Terraform's filesystem mirrors, with the provider for AWS.
MIRROR_VARIABLE = "TF_PLUGIN_MIRROR"
_MIRRORS = ("/opt/tf-plugins", "/usr/local/share/terraform/plugins", "~/.terraform.d/plugins")
_TIMEOUT_S = 900  # the tests of the stack for AWS take a minute of processor time

MIRRORED = """
provider_installation {{
  filesystem_mirror {{
    path    = "{mirror}"
    include = ["hashicorp/*"]
  }}
}}
"""


@dataclass(frozen=True)
class Stack:
    """A root module in a folder of its own, with what Terraform needs to work there."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [terraform(), *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    def must(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def terraform() -> str:
    found = shutil.which("terraform")
    if found is None:
        skips.skip(skips.TERRAFORM, "Terraform 1.10 or newer on the PATH")
    return found


def provider_mirror() -> Path:
    """Return a filesystem mirror that has the provider for AWS; skips where there is none."""
    given = os.environ.get(MIRROR_VARIABLE)
    for place in (given,) if given else _MIRRORS:
        folder = Path(place).expanduser()
        if list(folder.glob("*/hashicorp/aws/**/terraform-provider-aws*")):
            return folder
    remedy = f"in infra/terraform/aws: terraform providers mirror FOLDER; {MIRROR_VARIABLE}=FOLDER"
    return skips.skip(skips.TERRAFORM, remedy)


@contextmanager
def aws_stack(folder: Path, name: str = "aws") -> Iterator[Stack]:
    """Return the stack with the provider for AWS, which runs beside: Terraform would start it for each plan."""
    terraform()
    settings = folder / "terraform.rc"
    settings.write_text(MIRRORED.format(mirror=provider_mirror()))
    environment = {"TF_CLI_CONFIG_FILE": str(settings)}
    program = next(provider_mirror().glob("*/hashicorp/aws/*/*/terraform-provider-aws*"), None)
    if program is None:  # the mirror has it packed
        yield _initialised(_copy(folder, name), environment)
        return
    with subprocess.Popen(
        [program, "-debug"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as provider:
        try:
            assert provider.stdout is not None
            told = next(line for line in provider.stdout if "TF_REATTACH_PROVIDERS=" in line)
            attached = told.split("=", 1)[1].strip().strip("'")
            environment["TF_REATTACH_PROVIDERS"] = attached
            yield _initialised(_copy(folder, name), environment)
        finally:
            provider.kill()


@contextmanager
def google_stack(folder: Path, name: str = "gcp") -> Iterator[Stack]:
    """Return the stack with a provider that knows the schema alone."""
    terraform()
    settings = folder / "terraform.rc"
    settings.write_text("")
    command = [sys.executable, "-m", "tests.support.google_provider", str(folder / "provider")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as provider:
        try:
            assert provider.stdout is not None
            attached = provider.stdout.readline().strip()
            environment = {
                "TF_CLI_CONFIG_FILE": str(settings),
                "TF_REATTACH_PROVIDERS": attached,
            }
            yield _initialised(_copy(folder, name), environment)
        finally:
            provider.kill()


def _copy(folder: Path, name: str) -> Path:
    ignored = shutil.ignore_patterns(".terraform", "*.tfstate*")
    shutil.copytree(INFRA, folder / "terraform", ignore=ignored)
    return folder / "terraform" / name


def _initialised(folder: Path, environment: Mapping[str, str]) -> Stack:
    quiet = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", "TF_CLI_ARGS": "-no-color"}
    stack = Stack(folder, {**quiet, **environment})
    stack.must("init", "-backend=false", "-input=false")
    return stack
