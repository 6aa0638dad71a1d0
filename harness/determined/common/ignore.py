"""Match paths against patterns in .gitignore syntax, with the pathspec library."""

import re
from typing import Iterable

from determined.common.failures import BadContext

# Byte-code, editor files, version control and Terraform state are never part of a model.
ALWAYS = (
    "__pycache__/",
    "*.py[co]",
    "*$py.class",
    ".terraform/",
    "*.tfstate",
    "*.tfstate.*",
    ".git/",
    ".vscode/",
    ".idea/",
    ".mypy_cache/",
    "/shared_fs",
)


class Ignore:
    """The rules of one context directory. Paths are relative to its root and use `/`."""

    def __init__(self, lines: Iterable[str]) -> None:
        # Only packing a context needs this import, and `det --help` must start fast.
        from pathspec import GitIgnoreSpec

        try:
            self._spec = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error) as e:
            raise BadContext(
                f"a pattern in .detignore is not valid: {e}",
                "correct the pattern; its syntax is that of .gitignore",
            ) from e

    def matches(self, path: str, *, is_dir: bool) -> bool:
        """Return whether the rules exclude this path. The last matching rule decides."""
        return self._spec.match_file(path + "/" if is_dir else path)
