"""Write docs/llms.txt from the index of the documentation: `scripts/llms_text.py --write`.

Assistants read the file to find pages. Without `--write`, exit with 1 if it is out of date."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/llms.txt"
_ROW = re.compile(r"^\| (?P<title>.+?) \|(?P<about>.*)\|$")
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>[^)]+)\)")
_BEGIN = """\
# Determined Serverless

> Trains deep-learning models on rented GPUs of AWS and Google Cloud, or on your own machines. Keeps the interface of
> Determined 0.38.1. An idle cluster costs cents. Paths are relative to this file.

An assistant uses a cluster with the tools of `det mcp`: [guide](guides/assistants.md),
[skill](skills/determined/SKILL.md). People start with the [quickstart](quickstart.md).
"""


def text(index: str) -> str:
    """Return llms.txt for the text of docs/README.md."""
    lines = [_BEGIN]
    for line in index.splitlines():
        row = _ROW.match(line)
        if row is None or set(row["title"]) <= {"-"}:
            continue
        links = list(_LINK.finditer(row["title"]))
        if not links:
            lines.append(f"\n## {row['title'][:1].upper()}{row['title'][1:]}\n")
        about = _LINK.sub(lambda m: m["text"], row["about"].strip())
        lines += [f"- [{link['text']}]({link['path']}): {about}" for link in links]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    wanted = text((ROOT / "docs/README.md").read_text("utf-8"))
    if parser.parse_args().write:
        PAGE.write_text(wanted, "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != wanted:
        print("docs/llms.txt is out of date: run python scripts/llms_text.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
