"""The settings and paths of a machine."""

import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fresh_machine.interpreter import Interpreter

CHECKOUT = Path(__file__).resolve().parents[2]
NAME = "fresh-machine"
USER, USER_ID = "fresh", 12345
# The top-level folders that a machine shares with its host. Homes, data and mounts are not shared.
SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr", "var")


@dataclass(frozen=True)
class Plan:
    folder: Path
    interpreter: Interpreter
    carried: Sequence[str]
    as_root: bool
    docker: bool
    variables: Sequence[str]
    command: Sequence[str]

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def user(self) -> str:
        return "root" if self.as_root else USER

    @property
    def home(self) -> Path:
        return Path(pwd.getpwuid(0).pw_dir) if self.as_root else Path("/home") / USER

    def at(self, path: "str | Path") -> Path:
        """Return the path at which a path of the machine exists before the machine is entered."""
        return self.root / str(path).lstrip("/")
