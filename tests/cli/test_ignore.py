"""The syntax of .detignore is that of .gitignore; git itself is asked."""

import subprocess
from pathlib import Path

import pytest
from determined.common.ignore import ALWAYS, Ignore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PATHS = (
    "a", "b", "ab", "abc", "a.py", "b.py", "a b", "x-y", "dir/a", "dir/a.py", "dir/sub/a", "dir/sub/b.py",
    "dir/sub/deep/a.py", "other/a", "other/dir/a", "[ab]", "!a", "#a",
)  # fmt: skip


def ignored(lines: list[str], paths: tuple[str, ...] = PATHS) -> set[str]:
    """A file is left out when it or a directory above it is."""
    rules = Ignore(lines)
    found = set()
    for path in paths:
        parts = path.split("/")
        above = ["/".join(parts[:i]) for i in range(1, len(parts))]
        if any(rules.matches(p, is_dir=True) for p in above) or rules.matches(path, is_dir=False):
            found.add(path)
    return found


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for path in PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def by_git(root: Path, lines: list[str]) -> set[str]:
    (root / ".gitignore").write_text("\n".join(lines) + "\n")
    given_paths = "\0".join(PATHS).encode() + b"\0"
    command = ["git", "-C", str(root), "check-ignore", "--no-index", "-z", "--stdin"]
    done = subprocess.run(command, input=given_paths, capture_output=True, check=False)
    return {p for p in done.stdout.decode().split("\0") if p}


@pytest.mark.parametrize(
    "lines",
    [
        ["a"], ["/a"], ["dir/"], ["dir/a"], ["/dir"], ["*.py"], ["dir/*"], ["dir/**"], ["**/a"], ["dir/**/a.py"],
        ["*.py", "!a.py"], ["dir", "!dir/a"], ["dir/*", "!dir/a"], ["[ab]"], ["[!a]*"], ["[a-c]b*"], ["a?c"], ["\\#a"],
        ["\\!a"], ["#a"], ["a b"], ["a "], ["a\\ b"], ["*"], ["**"], ["*", "!*/"], ["*", "!a.py"], ["x[-]y"],
        ["\\[ab\\]"],
        ["**/sub/**"], ["dir/**/"], ["a/"], ["[[:alpha:]]"], ["[a"], ["a\\"], ["sub/a"], ["/**/a"], ["***"], ["d**r/a"],
        ["a**/b"], ["/ab**"], ["dir/s**/a"], ["ab**/**"], ["a**/*"], ["***/a"], ["dir/***/a"], ["a**"],
    ],
)  # fmt: skip
def test_each_form_means_what_it_means_to_git(repository: Path, lines: list[str]) -> None:
    assert ignored(lines) == by_git(repository, lines)


atoms = st.sampled_from(
    ["a", "b", "ab", "*", "?", "**", "/", "/", "dir", "sub", ".py", "[ab]", "[!b]", "other"]
)
patterns = st.lists(atoms, min_size=1, max_size=5).map("".join)
rules = st.lists(
    st.tuples(st.booleans(), patterns).map(lambda r: ("!" if r[0] else "") + r[1]), max_size=4
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rules)
def test_any_rules_decide_as_git_does(repository: Path, lines: list[str]) -> None:
    assert ignored(lines) == by_git(repository, lines)


@pytest.mark.parametrize(
    "path", ["x.pyc", "a/b.pyo", "a/b$py.class", "a/main.tfstate", "x.tfstate.backup"]
)
def test_byte_code_and_terraform_state_are_always_ignored(path: str) -> None:
    assert ignored(list(ALWAYS), (path,)) == {path}


@pytest.mark.parametrize("folder", ["__pycache__", "a/__pycache__", ".git", ".idea", "shared_fs"])
def test_caches_and_version_control_are_always_ignored(folder: str) -> None:
    assert Ignore(ALWAYS).matches(folder, is_dir=True)


def test_shared_fs_is_ignored_only_at_the_root() -> None:
    assert not Ignore(ALWAYS).matches("a/shared_fs", is_dir=True)
