"""Print the notes of a release, which are its part of CHANGELOG.md: python -m scripts.release.notes v0.1.0

It fails if the tag is not the version of pyproject.toml, or if the changelog has no part for it."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class WrongTag(Exception):
    """The tag does not belong to a version that is ready for release."""


def notes(tag: str, pyproject: str, changelog: str) -> str:
    """Return the text below the heading of a version. Raises WrongTag."""
    version = re.search(r'^version = "(.+)"$', pyproject, re.M)
    if version is None or tag != f"v{version[1]}":
        expected = f"v{version[1]}" if version else "a version"
        raise WrongTag(f"the tag is {tag}, and pyproject.toml has {expected}: change one of them")
    parts = re.split(r"^## (.+)$", changelog, flags=re.M)
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(version[1], "").strip()
    if not text:
        raise WrongTag(f"CHANGELOG.md has no text below a heading `## {version[1]}`: write it")
    return text


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m scripts.release.notes TAG", file=sys.stderr)
        return 2
    try:
        texts = ((ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "CHANGELOG.md"))
        print(notes(sys.argv[1], *texts))
    except WrongTag as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
