"""`.detignore` files: patterns have the meaning that pathspec and git give to `.gitignore`."""

import subprocess
from pathlib import Path

import pytest
from determined.common.context import ALWAYS_IGNORED, Ignore
from determined.common.failures import BadContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PATHS = (
    "a", "b", "ab", "abc", "a.py", "b.py", "a b", "x-y", "dir/a", "dir/a.py", "dir/sub/a", "dir/sub/b.py",
    "dir/sub/deep/a.py", "other/a", "other/dir/a", "[ab]", "!a", "#a",
)  # fmt: skip


def ignored(lines: list[str], paths: tuple[str, ...] = PATHS) -> set[str]:
    """Return the paths that the rules exclude, directly or through a parent directory."""
    rules = Ignore(lines)
    excluded_paths = set()
    for path in paths:
        parts = path.split("/")
        above = ["/".join(parts[:i]) for i in range(1, len(parts))]
        if any(rules.matches(p, is_dir=True) for p in above) or rules.matches(path, is_dir=False):
            excluded_paths.add(path)
    return excluded_paths


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
    stdin = "\0".join(PATHS).encode() + b"\0"
    command = ["git", "-C", str(root), "check-ignore", "--no-index", "-z", "--stdin"]
    result = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return {p for p in result.stdout.decode().split("\0") if p}


@pytest.mark.parametrize(
    "lines",
    [
        ["a"], ["/a"], ["dir/"], ["dir/a"], ["/dir"], ["*.py"], ["dir/*"], ["dir/**"], ["**/a"], ["dir/**/a.py"],
        ["*.py", "!a.py"], ["dir", "!dir/a"], ["dir/*", "!dir/a"], ["[ab]"], ["[!a]*"], ["[a-c]b*"], ["a?c"], ["\\#a"],
        ["\\!a"], ["#a"], ["a b"], ["a "], ["a\\ b"], ["*"], ["**"], ["*", "!*/"], ["*", "!a.py"], ["x[-]y"],
        ["\\[ab\\]"], ["**/sub/**"], ["a/"], ["[a"], ["sub/a"], ["/**/a"], ["***"], ["d**r/a"], ["/ab**"],
        ["dir/s**/a"], ["a**"],
    ],
)  # fmt: skip
def test_patterns_have_the_meaning_of_git(repository: Path, lines: list[str]) -> None:
    assert ignored(lines) == by_git(repository, lines)


@pytest.mark.parametrize(
    ("text", "excluded_paths"),
    [
        ("dir/**/", {"dir/a", "dir/a.py", "dir/sub/a", "dir/sub/b.py", "dir/sub/deep/a.py"}),
        ("***/a", {"dir/a", "other/a"}),
        ("dir/***/a", {"dir/sub/a"}),
        ("a**/b", set()),
        ("other[!b]", {"other/a", "other/dir/a"}),
        ("dir\n!other", {"dir/a", "dir/a.py", "dir/sub/a", "dir/sub/b.py", "dir/sub/deep/a.py"}),
    ],
)
def test_pathspec_decides_if_git_differs(
    repository: Path, text: str, excluded_paths: set[str]
) -> None:
    lines = text.split("\n")
    assert ignored(lines) == excluded_paths != by_git(repository, lines)


@pytest.mark.parametrize("pattern", ["!", "a\\", "[z-a]"])
def test_invalid_pattern_is_rejected_with_reason(pattern: str) -> None:
    with pytest.raises(BadContext, match=r"a pattern in \.detignore is not valid: .*"):
        Ignore(["*.bin", pattern])


# These strategies avoid the patterns for which pathspec and git differ: asterisks next to letters, negated brackets,
# and exceptions that name directories.
files = ["a", "b", "ab", "*.py", "a.py", "[ab]"]
segments = st.sampled_from([*files, "*", "?", "dir", "sub", "deep", "other"])


def below_any(last: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    above = st.lists(segments | st.just("**"), max_size=3)
    return st.tuples(above, last).map(lambda path: "/".join([*path[0], path[1]]))


excluded = st.tuples(st.sampled_from(["", "/"]), below_any(segments), st.sampled_from(["", "/"]))
included = st.tuples(st.sampled_from(["!", "!/"]), below_any(st.sampled_from(files)))
rules = st.lists((excluded | included).map("".join), max_size=4)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rules)
def test_random_rules_match_git(repository: Path, lines: list[str]) -> None:
    assert ignored(lines) == by_git(repository, lines)


@pytest.mark.parametrize(
    "path", ["x.pyc", "a/b.pyo", "a/b$py.class", "a/main.tfstate", "x.tfstate.backup"]
)
def test_bytecode_and_terraform_state_are_always_ignored(path: str) -> None:
    assert ignored(list(ALWAYS_IGNORED), (path,)) == {path}


@pytest.mark.parametrize("folder", ["__pycache__", "a/__pycache__", ".git", ".idea", "shared_fs"])
def test_caches_and_version_control_are_always_ignored(folder: str) -> None:
    assert Ignore(ALWAYS_IGNORED).matches(folder, is_dir=True)


def test_shared_fs_is_ignored_only_at_the_root() -> None:
    assert not Ignore(ALWAYS_IGNORED).matches("a/shared_fs", is_dir=True)
