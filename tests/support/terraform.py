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
        result = self.run(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


def terraform() -> str:
    path = shutil.which("terraform")
    if path is None:
        skips.skip(skips.TERRAFORM, "Terraform 1.10 or newer on the PATH")
    return path


def provider_mirror() -> Path:
    """Return a filesystem mirror with the provider for AWS; skip the test if there is none."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    for place in (mirror,) if mirror else _MIRRORS:
        folder = Path(place).expanduser()
        if list(folder.glob("*/hashicorp/aws/**/terraform-provider-aws*")):
            return folder
    remedy = f"in infra/terraform/aws: terraform providers mirror FOLDER; {MIRROR_VARIABLE}=FOLDER"
    return skips.skip(skips.TERRAFORM, remedy)


@contextmanager
def aws_provider() -> Iterator[Mapping[str, str]]:
    """Run the provider for AWS, which Terraform would start for each plan; give the variables by which it is found."""
    terraform()
    program = next(provider_mirror().glob("*/hashicorp/aws/*/*/terraform-provider-aws*"), None)
    if program is None:  # the mirror has it packed
        yield {}
        return
    with subprocess.Popen(
        [program, "-debug"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as provider:
        try:
            assert provider.stdout is not None
            reported_line = next(
                line for line in provider.stdout if "TF_REATTACH_PROVIDERS=" in line
            )
            yield {"TF_REATTACH_PROVIDERS": reported_line.split("=", 1)[1].strip().strip("'")}
        finally:
            provider.kill()


def aws_stack(folder: Path, provider: Mapping[str, str], name: str = "aws") -> Stack:
    """Return a stack with the provider for AWS that runs beside."""
    settings = folder / "terraform.rc"
    settings.write_text(MIRRORED.format(mirror=provider_mirror()))
    environment = {"TF_CLI_CONFIG_FILE": str(settings), **provider}
    return _initialised(_copy(folder, name), environment)


@contextmanager
def google_provider(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a provider for Google Cloud that knows the schema alone; give the variables by which it is found."""
    terraform()
    command = [sys.executable, "-m", "tests.support.google_provider", str(folder / "provider")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as provider:
        try:
            assert provider.stdout is not None
            yield {"TF_REATTACH_PROVIDERS": provider.stdout.readline().strip()}
        finally:
            provider.kill()


def google_stack(folder: Path, provider: Mapping[str, str], name: str = "gcp") -> Stack:
    """Return a stack with the provider for Google Cloud that runs beside."""
    settings = folder / "terraform.rc"
    settings.write_text("")
    environment = {"TF_CLI_CONFIG_FILE": str(settings), **provider}
    return _initialised(_copy(folder, name), environment)


def _copy(folder: Path, name: str) -> Path:
    ignored = shutil.ignore_patterns(".terraform", "*.tfstate*")
    shutil.copytree(INFRA, folder / "terraform", ignore=ignored)
    return folder / "terraform" / name


def _initialised(folder: Path, environment: Mapping[str, str]) -> Stack:
    quiet = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", "TF_CLI_ARGS": "-no-color"}
    stack = Stack(folder, {**quiet, **environment})
    stack.must("init", "-backend=false", "-input=false")
    return stack
