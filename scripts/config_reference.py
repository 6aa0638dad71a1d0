"""Write docs/reference/experiment-config.md and cluster-config.md from the models and config_meanings.yaml.

python scripts/config_reference.py           check whether the pages are current
python scripts/config_reference.py --write   update the pages

Names, types, bounds and defaults come from the code. Each field has a handwritten sentence in config_meanings.yaml.
"""

import re
import sys
import textwrap
from collections import Counter
from dataclasses import replace
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


# Sentences of fields that are listed in one line instead of a table.
_LINES = {
    "below": "Own tables:",
    "as in Determined": "As in Determined:",
    "as in experiments": "As in the [experiment configuration](experiment-config.md):",
    "limit of machines": "[Limits](pools.md#limits) of rented machines:",
    "no effect": "Accepted without effect:",
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
    shared = _fields_of_several_kinds(meaning, fields)
    for section in dict.fromkeys(field.section for field in fields):
        own = [f for f in fields if f.section == section and f not in shared]
        about = meaning["sections"].get(section, "").strip()
        contents = [_wrapped(about), *_described(own, meaning)]
        if any(contents):
            parts.append("\n\n".join(p for p in (f"## {section or 'Top level'}", *contents) if p))
        if f"{section} (*)" in meaning["sections"]:
            parts += [
                _wrapped(meaning["sections"][f"{section} (*)"]),
                _table_of_kinds(shared, meaning),
            ]
    parts.append(_wrapped(meaning["tail"].strip()))
    return "\n\n".join(parts) + "\n"


def _fields_of_several_kinds(meaning: dict[str, Any], fields: list[Field]) -> list[Field]:
    """Return the fields that several kinds of a section have, if the section has a text for all kinds."""
    candidates = [
        field
        for field in fields
        if field.path not in meaning["fields"]
        and re.sub(r"\(\w+\).*", "(*)", field.section) in meaning["sections"]
        and not _is_tag(field)
    ]
    counts = Counter(_of_any_kind(field) for field in candidates)
    return [field for field in candidates if counts[_of_any_kind(field)] > 1]


def _table_of_kinds(fields: list[Field], meaning: dict[str, Any]) -> str:
    """Return one table of fields of several kinds, with a column of the kinds."""
    kinds: dict[str, list[str]] = {}
    for field in fields:
        kind, _, inner = field.section.partition("(")[2].partition(")")
        name = f"{inner}.{field.name}".lstrip(".")
        row = _row(replace(field, name=name), _meaning(meaning["fields"], field))
        kinds.setdefault(row, []).append(kind)
    rows = [f"{row} {', '.join(f'`{kind}`' for kind in names)} |" for row, names in kinds.items()]
    return "\n".join(
        ["| key | type | default | meaning | methods |", "|---|---|---|---|---|", *rows]
    )


def _is_tag(field: Field) -> bool:
    """Return True for the field that selects the kind, such as `name` of a searcher."""
    return f"({field.type.strip('`')})" in field.section


def _described(fields: list[Field], meaning: dict[str, Any]) -> list[str]:
    """Return a table of the fields, and lines with the fields that need no row."""
    meanings = {field: _meaning(meaning["fields"], field) for field in fields}
    rows = [f for f in fields if meanings[f] not in (*_LINES, None) and not _is_tag(f)]
    lines = [
        _wrapped(f"{line} {', '.join(f'`{f.name}`' for f in fields if meanings[f] == word)}.")
        for word, line in _LINES.items()
        if word in meanings.values()
    ]
    return [_table(rows, meaning) if rows else "", *lines]


def _wrapped(text: str) -> str:
    """Return the text with paragraphs of 100 columns; tables, code and headings stay unchanged."""
    blocks = text.split("\n\n")
    return "\n\n".join(b if b.startswith(("|", "```", "#")) else _filled(b) for b in blocks)


def _filled(paragraph: str) -> str:
    """Return the paragraph in lines of 100 columns that do not break code or links."""
    unbroken = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: m[0].replace(" ", "\0"), paragraph)
    text = textwrap.fill(unbroken, 100, break_long_words=False, break_on_hyphens=False)
    return text.replace("\0", " ")


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
    unexplained = [f for f in fields if _meaning(meanings, f) is None and not _is_tag(f)]
    problems = [f"{f.path}: say what it means" for f in unexplained]
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
