"""Match paths against patterns in the syntax of .gitignore, by the pathspec library."""

import re
from typing import Iterable

from determined.common.failures import BadContext

# Byte-code, editors, version control and Terraform's state never belong to a model.
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
    """Hold the rules of one context directory. Paths are relative to its root, with `/`."""

    def __init__(self, lines: Iterable[str]) -> None:
        # Imported here: only packing a context needs it, and `det --help` must stay light.
        from pathspec import GitIgnoreSpec

        try:
            self._spec = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error) as e:
            raise BadContext(
                f"a pattern in .detignore is not valid: {e}",
                "correct the pattern; its syntax is that of .gitignore",
            ) from e

    def matches(self, path: str, *, is_dir: bool) -> bool:
        """Return whether the last rule that matches leaves the path out."""
        return self._spec.match_file(path + "/" if is_dir else path)
