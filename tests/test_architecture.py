"""Rules of the code base: allowed imports, and the largest sizes of files and functions."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
SMALL_FILE_LINES = 60
MAX_SHARE_OF_SMALL_FILES = 0.20

HOMES = {
    "determined": "harness",
    "det_cli": "cli",
    "det_controlplane": "controlplane",
    "det_provisioner_aws": "provisioners/aws",
    "det_provisioner_gcp": "provisioners/gcp",
    "det_agent": "agent_ami",
}
PORTS_AND_CORE = frozenset({"det_controlplane.ports", "det_controlplane.core"})

# The imports that each package may have of our other packages.
PACKAGES: dict[str, frozenset[str]] = {
    "determined": frozenset(),
    "det_cli": frozenset(
        {
            "determined",
            "det_controlplane.entry.importing.commands",
            "det_controlplane.entry.local.commands",
            "det_controlplane.entry.local.files",
            "det_controlplane.adapters.own_wheel",
            "det_controlplane.entry.aws.packaging",
            "det_controlplane.core.config",
            "det_controlplane.core.problems",
            "det_controlplane.core.provision",
        }
    ),
    "det_controlplane": frozenset(),
    "det_provisioner_aws": PORTS_AND_CORE,
    "det_provisioner_gcp": PORTS_AND_CORE,
    "det_agent": frozenset(
        {
            "determined.common",
            "det_controlplane.core.agent_protocol",
            "det_controlplane.core.interface",
            "det_controlplane.core.documents",
            "det_controlplane.core.patterns",
            "det_controlplane.core.relay_frames",
            "det_controlplane.core.json_log",
            # The addresses of data sets, and the order in which caches delete them.
            "det_controlplane.core.datasets",
            # Both ends of the relay count and order bytes alike.
            "det_controlplane.adapters.relay_streams",
        }
    ),
}
# Packages that the command may import only inside functions, so that `det --help` stays fast.
LAZY = {"det_cli": "det_controlplane"}

# The other rooms of the control plane that each room may import. Entry points compose everything.
ROOMS: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "ports": frozenset({"core"}),
    "db": frozenset({"core"}),
    "services": frozenset({"core", "ports", "db"}),
    "api": frozenset({"core", "services"}),
    "adapters": frozenset({"core", "ports"}),
    "entry": frozenset({"core", "ports", "db", "services", "api", "adapters"}),
    "testing": frozenset({"core", "ports"}),
    "webui": frozenset(),
}
# The packages of services in their order: each imports only earlier ones.
SERVICES = (
    "identity", "organization", "scheduling", "webhooks", "logs", "money", "search", "code", "tasks",
    "checkpoints", "experiments", "machines", "agents", "trials", "queue", "interactive", "pools", "maintenance",
    "registry", "cluster", "importing",
)  # fmt: skip
# Exceptions, each with its reason.
ALLOWED = {
    # One class of errors that the edge has to translate.
    ("det_controlplane.api.app", "det_controlplane.db.engine.errors"),
    ("det_controlplane.api.authorization", "det_controlplane.db.engine.errors"),
}
# Statements stand in one room.
SQL_ROOMS = frozenset({"db"})
SQL_PACKAGES = ("sqlalchemy", "alembic", "pg8000")
_STATEMENT = re.compile(
    r"^\s*(select\s.+\sfrom|update\s+\w+\s+set|delete\s+from|insert\s+into)\s", re.I | re.M
)
# `core` contains decisions only: no clock, no database, no cloud.
PURE = frozenset({"pydantic", "pydantic_core", "yaml", "re2"})
IMPURE_STANDARD = frozenset(
    {"socket", "subprocess", "secrets", "threading", "asyncio", "os", "time"}
)


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def room(self) -> str:
        return self.name.split(".")[1] if self.name.count(".") else ""


@dataclass(frozen=True)
class Import:
    module: Module
    target: str
    line: int
    at_top: bool

    def __str__(self) -> str:
        return f"{self.module.path.relative_to(ROOT)}:{self.line} imports {self.target}"


def python_files() -> Iterator[Path]:
    for package, home in HOMES.items():
        yield from sorted((ROOT / home / package).rglob("*.py"))


@functools.cache
def modules() -> list[Module]:
    """Return every module of ours, read when a test asks: workers of xdist collect files that they never run."""
    names = []
    for path in python_files():
        home = next(h for p, h in HOMES.items() if (ROOT / h / p) in path.parents)
        parts = path.relative_to(ROOT / home).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        names.append(Module(name, path, ast.parse(path.read_text("utf-8"))))
    return names


@functools.cache
def imports(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[Import]:
    typing_only = {
        id(inner)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    top = {id(node) for node in module.tree.body}
    for node in ast.walk(module.tree):
        at_top = id(node) in top
        if id(node) in typing_only:
            at_top = False
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, at_top)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                yield Import(module, f"{base}.{alias.name}", node.lineno, at_top)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.path.name == "__init__.py"
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + (1 if package else 0)]
    return ".".join([*parts, node.module] if node.module else parts)


def _within(target: str, allowed: frozenset[str]) -> bool:
    return any(target == a or target.startswith(a + ".") for a in allowed)


def _imported(modules: list[Module]) -> dict[str, set[str]]:
    """Return, by module, the modules that it names in any import, also inside functions and for types only."""
    names = {m.name for m in modules}
    graph: dict[str, set[str]] = {}
    for m in modules:
        targets = {i.target for i in imports(m)}
        parents = {t.rpartition(".")[0] for t in targets - names}
        graph[m.name] = (targets | parents) & names - {m.name}
    return graph


def _circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the modules that import each other, also by way of others (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        path.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
            if target in path:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == order[name]:
            start = path.index(name)
            if len(path) - start > 1:
                circles.append(set(path[start:]))
            del path[start:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return circles


def test_modules_do_not_import_in_circles() -> None:
    assert [sorted(c) for c in _circles(_imported(modules()))] == []


def test_only_db_contains_sql() -> None:
    outside = [m for m in modules() if m.package == "det_controlplane" and m.room not in SQL_ROOMS]
    importing = [str(i) for m in outside for i in imports(m) if i.target.startswith(SQL_PACKAGES)]
    problems = [
        f"{m.path.relative_to(ROOT)}:{node.lineno}"
        for m in outside
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _STATEMENT.search(node.value)
    ]
    assert importing + problems == []


def test_sql_statements_are_recognised() -> None:
    for statement in (
        "SELECT id FROM t",
        "update jobs set x = 1",
        "DELETE FROM t",
        "INSERT INTO t",
    ):
        assert _STATEMENT.search(f"\n    {statement}")
    assert not _STATEMENT.search("Update jobs by `det job update`")


def test_import_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert _circles(graph) == [{"b", "c"}, {"e", "f"}]
    source = "def f():\n    from determined.core import _context\n"
    inner = Module("determined.core._train", ROOT, ast.parse(source))
    outer = Module("determined.core._context", ROOT, ast.parse("import determined.core._train"))
    assert _circles(_imported([inner, outer])) == [{inner.name, outer.name}]


def test_every_package_is_checked() -> None:
    assert {m.package for m in modules()} == set(HOMES)


def test_packages_import_only_what_the_map_allows() -> None:
    problems = [
        str(i)
        for m in modules()
        for i in imports(m)
        if i.target.partition(".")[0] in HOMES
        and i.target.partition(".")[0] != m.package
        and not _within(i.target, PACKAGES[m.package])
    ]
    assert problems == []


def _map_in_docs(first_columns: str) -> dict[str, frozenset[str]]:
    """Return the allowed imports of each name from the table of docs/concepts/architecture.md with this head."""
    page = (ROOT / "docs/concepts/architecture.md").read_text("utf-8")
    table = page.split(f"| {first_columns} | content |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {
        row[-3].strip("`"): frozenset(
            name if name[0] != "." else f"det_controlplane{name}"
            for name in re.findall(r"`([^`]+)`", row[-1])
        )
        for row in rows
    }


def test_docs_show_the_import_map() -> None:
    assert _map_in_docs("folder | package") == PACKAGES
    assert _map_in_docs("layer") == ROOMS


def test_command_loads_the_control_plane_only_when_needed() -> None:
    problems = [
        str(i)
        for m in modules()
        for i in imports(m)
        if i.at_top and i.target.partition(".")[0] == LAZY.get(m.package)
    ]
    assert problems == []


def test_rooms_of_the_control_plane_import_in_one_direction() -> None:
    problems = []
    for m in (m for m in modules() if m.package == "det_controlplane" and m.room):
        assert m.room in ROOMS, f"{m.name}: a room that the map does not have"
        for i in imports(m):
            parts = i.target.split(".")
            if parts[0] != "det_controlplane" or len(parts) < 2 or parts[1] == m.room:
                continue
            excepted = any(
                m.name == module_name and _within(i.target, frozenset({package}))
                for module_name, package in ALLOWED
            )
            if parts[1] not in ROOMS[m.room] and not excepted:
                problems.append(str(i))
    assert problems == []


def test_service_packages_import_only_earlier_ones() -> None:
    """Check the order of packages. Modules beside them, such as `use_case`, import no package."""
    prefix = "det_controlplane.services."
    problems = []
    for m in (m for m in modules() if m.name.startswith(prefix)):
        own = m.name.removeprefix(prefix).partition(".")[0]
        assert own in SERVICES or m.path.parent.name == "services", f"{m.name}: not in SERVICES"
        earlier = SERVICES[: SERVICES.index(own)] if own in SERVICES else ()
        for i in (i for i in imports(m) if i.target.startswith(prefix)):
            package = i.target.removeprefix(prefix).partition(".")[0]
            if package in SERVICES and package != own and package not in earlier:
                problems.append(str(i))
    assert problems == []


def test_core_imports_no_io_modules() -> None:
    problems = []
    for m in (m for m in modules() if m.name.startswith("det_controlplane.core")):
        for i in imports(m):
            top = i.target.partition(".")[0]
            is_known = top in sys.stdlib_module_names or top in PURE or top == "det_controlplane"
            if not is_known or top in IMPURE_STANDARD:
                problems.append(str(i))
    assert problems == []


def test_core_contains_no_urls() -> None:
    core = [m for m in modules() if m.name.startswith("det_controlplane.core")]
    assert [str(m.path.relative_to(ROOT)) for m in core if "/api/v1" in m.path.read_text()] == []


def test_scheduler_and_provisioner_share_only_placement() -> None:
    """`core.placement` knows neither of the two, so both place work by the same rules."""
    core = "det_controlplane.core."
    allowed: dict[str, frozenset[str]] = {
        "placement": frozenset(),
        "schedule": frozenset({f"{core}placement"}),
        "provision": frozenset({f"{core}placement", f"{core}schedule.wording"}),
    }
    packages = {name: frozenset({core + name}) for name in allowed}
    problems = [
        str(i)
        for m in modules()
        for name, own in packages.items()
        if _within(m.name, own)
        for i in imports(m)
        if any(_within(i.target, package) for package in packages.values())
        and not _within(i.target, own | allowed[name])
    ]
    assert problems == []
    for name in ("schedule", "provision"):
        own = [m for m in modules() if _within(m.name, packages[name])]
        assert any(_within(i.target, packages["placement"]) for m in own for i in imports(m))


def test_core_uses_only_seeded_random_generators() -> None:
    """`random.Random(seed)` replays; the module's shared generator does not."""
    problems = [
        f"{m.path.relative_to(ROOT)}:{node.lineno} random.{node.attr}"
        for m in modules()
        if m.name.startswith("det_controlplane.core")
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "random"
        and node.attr != "Random"
    ]
    assert problems == []


def test_harness_imports_only_the_standard_library() -> None:
    problems = []
    for m in (m for m in modules() if m.package == "determined"):
        for i in imports(m):
            top = i.target.partition(".")[0]
            if i.at_top and top not in sys.stdlib_module_names and top != "determined":
                problems.append(str(i))
    framework = ("checkpointing", "pytorch", "keras", "transformers", "lightning", "tensorboard")
    assert [w for w in problems if not any(f"determined/{f}" in w for f in framework)] == []


def is_written_by_hand(path: Path) -> bool:
    """Return whether the limits of sizes apply. Revisions of Alembic may be as long as their changes."""
    return path.parent.name != "versions"


def test_files_are_short() -> None:
    """A file that is too long is to be split by concept."""
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in python_files()
        if is_written_by_hand(path)
    }
    assert len(lengths) > 100
    assert {path: n for path, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_few_files_are_small() -> None:
    """A small file usually belongs to a neighbour with the same subject."""
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in python_files()
        if path.name != "__init__.py"
    }
    small = sorted(path for path, lines in lengths.items() if lines < SMALL_FILE_LINES)
    share = len(small) / len(lengths)
    assert share < MAX_SHARE_OF_SMALL_FILES, f"{share:.1%} of files are small: {small}"


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short() -> None:
    problems = []
    for m in (m for m in modules() if is_written_by_hand(m.path)):
        for node in functions(m):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                place = f"{m.path.relative_to(ROOT)}:{node.lineno}"
                problems.append(f"{place} {node.name} has {length} lines")
    assert problems == []


def test_forbidden_imports_are_detected() -> None:
    source = "def f():\n    from det_controlplane.db import engine\n"
    path = ROOT / "controlplane/det_controlplane/core/search.py"
    module_with_error = Module("det_controlplane.core.search", path, ast.parse(source))
    (import_found,) = imports(module_with_error)
    assert (import_found.target, import_found.at_top) == ("det_controlplane.db.engine", False)
    assert not _within(import_found.target, frozenset({"det_controlplane.core"}))


def test_migrations_are_one_chain() -> None:
    """Two that landed at the same time have the same number, and every database refuses them."""
    names = sorted(
        p.name
        for p in (ROOT / "controlplane/det_controlplane/db/migrations/versions").glob("0*.py")
    )
    numbers = [name.partition("_")[0] for name in names]
    assert numbers == [f"{1 + n:04}" for n in range(len(names))], names
