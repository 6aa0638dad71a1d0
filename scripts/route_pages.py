"""Write the files that are made from the records of the API's routes: `scripts/route_pages.py --write`.

They are docs/reference/api.md, docs/reference/permissions.md and the index of modules in api/route_index.py. Without
`--write`, print the names of files that are out of date and exit with 1."""

import argparse
import sys
from pathlib import Path

from det_controlplane.api import permission_reference, reference, routes
from det_controlplane.api.router import Route

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "controlplane/det_controlplane/api/route_index.py"


def index_module(modules_at: dict[str, tuple[str, ...]]) -> str:
    """Return the source of api/route_index.py."""
    rows = [f'    "{place}": ({_names(modules)}),\n' for place, modules in modules_at.items()]
    return (
        '"""The modules with routes below each first name of a path. scripts/route_pages.py generates this file."""\n\n'
        f"MODULES_AT: dict[str, tuple[str, ...]] = {{\n{''.join(rows)}}}\n"
    )


def _names(modules: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in modules)
    return names if len(modules) > 1 else f"{names},"


def files() -> dict[Path, str]:
    """Return the text of each file that is made from the records."""
    modules_at = routes.index()
    names = {name for modules in modules_at.values() for name in modules}
    records: list[Route] = [r for name in sorted(names) for r in routes.of_module(name)]
    records.extend(routes.DESCRIPTIONS)
    return {
        INDEX: index_module(modules_at),
        ROOT / "docs/reference/api.md": reference.page(records),
        ROOT / "docs/reference/permissions.md": permission_reference.page(records),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files")
    is_writing = parser.parse_args().write
    stale = [path for path, text in files().items() if path.read_text("utf-8") != text]
    for path in stale:
        print(path.relative_to(ROOT))
        if is_writing:
            path.write_text(files()[path], "utf-8")
    return 1 if stale and not is_writing else 0


if __name__ == "__main__":
    sys.exit(main())
