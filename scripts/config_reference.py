"""Write docs/reference/experiment-config.md and cluster-config.md from the models and config_meanings.yaml.

python scripts/config_reference.py           check whether the pages are current
python scripts/config_reference.py --write   update the pages

Names, types, bounds and defaults come from the code. Each field has a handwritten sentence in config_meanings.yaml.
"""

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml
from det_controlplane.core.config.experiment import ExperimentConfig

sys.path.insert(0, str(Path(__file__).parent))
from config_fields import Field, fields_of_cluster, fields_of_models

ROOT = Path(__file__).parent.parent
MEANINGS = Path(__file__).parent / "config_meanings.yaml"
PAGES = {
    "experiment": ROOT / "docs" / "reference" / "experiment-config.md",
    "cluster": ROOT / "docs" / "reference" / "cluster-config.md",
}


class Unexplained(Exception):
    """A field has no sentence, or a sentence has no field."""


def pages() -> dict[str, str]:
    """Return the current text of each page."""
    meanings = yaml.safe_load(MEANINGS.read_text("utf-8"))
    fields = {"experiment": fields_of_models(ExperimentConfig), "cluster": fields_of_cluster()}
    return {name: _page(meanings[name], fields[name]) for name in PAGES}


def _page(meaning: dict[str, Any], fields: list[Field]) -> str:
    _check(meaning["fields"], fields)
    parts = [meaning["head"].strip()]
    for section in dict.fromkeys(field.section for field in fields):
        section_fields = [field for field in fields if field.section == section]
        title = section or "Top level"
        about = meaning["sections"].get(section, "").strip()
        table = _table(section_fields, meaning)
        parts.append("\n\n".join(p for p in (f"## {title}", _wrapped(about), table) if p))
    parts.append(_wrapped(meaning["tail"].strip()))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    """Return the text with paragraphs of 100 columns; tables, code and headings stay unchanged."""
    blocks = text.split("\n\n")
    return "\n\n".join(b if b.startswith(("|", "```", "#")) else _filled(b) for b in blocks)


def _filled(paragraph: str) -> str:
    """Return the paragraph in lines of 100 columns that do not break code or links."""
    unbroken = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: m[0].replace(" ", "\0"), paragraph)
    filled = textwrap.fill(unbroken, 100, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\0", " ")


def _table(fields: list[Field], meaning: dict[str, Any]) -> str:
    rows = [_row(field, _meaning(meaning["fields"], field)) for field in fields]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _row(field: Field, meaning: Any) -> str:
    """Return a field's row. `meaning` is its sentence, or an object that also overrides type or default."""
    parts = {"type": field.type, "default": field.default}
    parts |= meaning if isinstance(meaning, dict) else {"means": meaning}
    cells = [f"`{field.name}`", parts["type"], parts["default"], str(parts["means"]).strip()]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _meaning(meanings: dict[str, Any], field: Field) -> Any:
    """Return the sentence of a field, or the sentence for all kinds of its section, marked with (*)."""
    return meanings.get(field.path) or meanings.get(_of_any_kind(field))


def _of_any_kind(field: Field) -> str:
    return re.sub(r"\(\w+\)", "(*)", field.path)


def _check(meanings: dict[str, Any], fields: list[Field]) -> None:
    paths = {name for field in fields for name in (field.path, _of_any_kind(field))}
    problems = [f"{f.path}: say what it means" for f in fields if _meaning(meanings, f) is None]
    problems += [f"{path}: is not a field (any more)" for path in sorted(set(meanings) - paths)]
    if problems:
        raise Unexplained("; ".join(problems))


def main() -> int:
    stale = {name: text for name, text in pages().items() if _current(name) != text}
    for name, text in stale.items():
        if "--write" in sys.argv[1:]:
            PAGES[name].write_text(text, "utf-8")
        print(("wrote " if "--write" in sys.argv[1:] else "not current: ") + PAGES[name].name)
    return 1 if stale and "--write" not in sys.argv[1:] else 0


def _current(name: str) -> str:
    return PAGES[name].read_text("utf-8") if PAGES[name].exists() else ""


if __name__ == "__main__":
    sys.exit(main())
