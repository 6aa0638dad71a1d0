"""Check that docstrings, comments and docs are plain English: `python scripts/prose.py [--list] [PATH …]`.

The paths in `[tool.prose]` of pyproject.toml are checked if none are given. Each marker below has a limit per 1,000
words. A marker is a hint: rewrite the sentence with a subject and a concrete noun. `--commit-message FILE` checks the
message of a commit instead.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SENTENCE = 35  # words
LONGEST_TITLE = 72  # characters
FEWEST_WORDS = 2000  # shorter texts have rates that say little: one hit of each marker is allowed

_OLD_VERBS = (
    "mend(?:s|ed|ing)?|in vain|anew|lest|lends?|(?:is|are|was|were) lent|g(?:ive|ives|ave|iven) back"
    "|t(?:ake|akes|ook|aken) back|go(?:es)? on|went on|gone on|hold(?:s)? up|bears? "
)


@dataclass(frozen=True)
class Marker:
    """A pattern that readers stumble over, its limit per 1,000 words, and advice."""

    name: str
    pattern: re.Pattern[str]
    limit: float
    advice: str


def _marker(name: str, pattern: str, limit: float, advice: str) -> Marker:
    return Marker(name, re.compile(pattern), limit, advice)


MARKERS = (
    _marker(
        "what-clause",
        r"\b[Ww]hat (?!(?:are|do|does|did|if|happens|to)\b)[a-z']+",
        0.5,
        "name the thing: 'queued jobs', not 'what waits'",
    ),
    _marker(
        "who-clause",
        r"\b(?:[Ww]hoever|[Ww]ho (?:is|has|may|asks|needs|sees|wants|owns|reads|calls)\b|(?:those|one) who)",
        0.3,
        "name the person: 'the caller', 'an administrator'",
    ),
    _marker(
        "tell", r"\b(?:tell|tells|told|telling)\b", 0.4, "use report, show, return or distinguish"
    ),
    _marker(
        "pronoun",
        r"\b(?:those|others) (?:of|that|with|which|in|on|from|before|after|without)\b|\bthat of\b|\bsuch (?:a )?one\b",
        0.5,
        "repeat the noun",
    ),
    _marker(
        "nobody-nothing",
        r"\b(?:nobody|nothing|none of|by none|no one)\b",
        1.0,
        "turn the sentence round: 'every temporary file is deleted', not 'nothing is left'",
    ),
    _marker("whose", r"\b(?:whose|whatever|whichever)\b", 0.5, "use 'with', or a second sentence"),
    _marker(
        "is-no",
        r"\b(?:is|are|was|were|be) (?:no|none)\b(?! (?:longer|more|such|need|way|point|other))",
        0.6,
        "write 'is not a trial', not 'is no trial'",
    ),
    _marker(
        "old-verb",
        rf"\b(?:{_OLD_VERBS})\b",
        0.3,
        "use fix, retry, return, release, continue or block",
    ),
)
FRAGMENT = _marker(
    "fragment",
    r"^(?:Of|As|What|Those|Whose|Which|Who|Whoever|Likewise|Else)\b(?! (?:if|a result|of)\b)[^?]*$",
    0.2,
    "begin a comment with its subject",
)
DOCSTRING_START = _marker(
    "docstring-start",
    r"^(?:What|Who|Whether|How)\b",
    0.0,
    "begin the docstring of a function with a verb",
)
LONG_SENTENCE = _marker(
    "long-sentence", r"", 0.0, f"split sentences of more than {LONGEST_SENTENCE} words"
)
EVERY_MARKER = (*MARKERS, FRAGMENT, DOCSTRING_START, LONG_SENTENCE)


@dataclass(frozen=True)
class Passage:
    """A docstring, a block of comments or a paragraph."""

    path: str
    line: int
    kind: str  # docstring, comment or docs
    text: str


@dataclass(frozen=True)
class Hit:
    marker: Marker
    passage: Passage
    text: str

    def __str__(self) -> str:
        place = f"{self.passage.path}:{self.passage.line}"
        return f"{place}: {self.marker.name} '{self.text}': {self.marker.advice}"


def passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a file of Python, Markdown, shell, Terraform, YAML or JavaScript."""
    source = path.read_text("utf-8", "replace")
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    if path.suffix == ".py":
        parts = python_passages(source)
    elif path.suffix == ".md":
        parts = markdown_passages(source)
    else:
        parts = commented_lines(source, "//" if path.suffix in (".js", ".mjs") else "#")
    for line, kind, text in parts:
        yield Passage(name, line, kind, text)


def python_passages(source: str) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, "docstring", text
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [t for t in tokens if t.type == tokenize.COMMENT]
    yield from _blocks([(t.start[0], t.string) for t in comments if _is_alone(t)])
    for comment in comments:
        if not _is_alone(comment):  # comments behind code on adjacent lines are not one text
            yield from _blocks([(comment.start[0], comment.string)])


def _is_alone(comment: tokenize.TokenInfo) -> bool:
    """Return whether a comment has its line for itself."""
    return not comment.line[: comment.start[1]].strip()


def commented_lines(source: str, mark: str) -> Iterator[tuple[int, str, str]]:
    lines = enumerate(source.splitlines(), 1)
    yield from _blocks([(n, line.strip()) for n, line in lines if line.strip().startswith(mark)])


def _blocks(comments: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield comments on adjacent lines as one passage. Directives for tools are left out."""
    block: list[str] = []
    first = last = 0
    for line, comment in comments:
        if re.match(r"(?:#|//)\s*(?:type:|noqa|fmt:|pragma|mypy|shellcheck|!|@ts)", comment):
            continue
        if block and line != last + 1:
            yield first, "comment", "\n".join(block)
            block = []
        if not block:
            first = line
        block.append(comment.lstrip("#/ "))
        last = line
    if block:
        yield first, "comment", "\n".join(block)


def markdown_passages(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield paragraphs, list items and cells of tables without code."""
    block: list[str] = []
    first, is_code = 0, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        is_code ^= is_fence
        starts = re.match(r"\s*(?:[-*+]|\d+\.|#+) |\|", line.lstrip())
        if block and (starts or is_fence or is_code or not line.strip()):
            yield first, "docs", "\n".join(block)
            block = []
        if is_fence or is_code or not line.strip() or line.startswith("    "):
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, "docs", _without_code(cell)
        else:
            first = first if block else number
            block.append(_without_code(line))


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`|\]\([^)]*\)", " X ", text)


def hits(passage: Passage) -> Iterator[Hit]:
    """Yield the places of a passage that a marker finds."""
    for marker in MARKERS:
        for match in marker.pattern.finditer(passage.text):
            yield Hit(marker, passage, match[0])
    start = passage.text.strip()
    if passage.kind == "comment" and FRAGMENT.pattern.match(start):
        yield Hit(FRAGMENT, passage, start.splitlines()[0])
    if passage.kind == "docstring" and DOCSTRING_START.pattern.match(start):
        yield Hit(DOCSTRING_START, passage, start.splitlines()[0])
    for sentence in sentences(passage.text):
        if count_words(sentence) > LONGEST_SENTENCE:
            yield Hit(LONG_SENTENCE, passage, " ".join(sentence.split())[:60] + " …")


def sentences(text: str) -> list[str]:
    """Split a text at the ends of sentences, blank lines, list items and lines that end with a colon."""
    return re.split(r"(?<=[.!?;])\s+|:\s*\n|\n\s*\n|\n\s*(?:[-*+]|\d+\.) ", text)


def count_words(text: str) -> int:
    return len(re.findall(r"[A-Za-z']+", text))


def over_limits(found: Iterable[Hit], words: int) -> dict[str, float]:
    """Return the rates per 1,000 words that exceed their limits, by the markers' names."""
    counts = Counter(hit.marker for hit in found)
    limits = {m: m.limit * max(words, FEWEST_WORDS) / 1000 for m in counts}
    return {m.name: 1000 * n / words for m, n in counts.items() if n > max(limits[m], m.limit > 0)}


def files_below(paths: Iterable[str]) -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *paths]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    suffixes = {".py", ".md", ".sh", ".tf", ".yaml", ".yml", ".js", ".mjs"}
    return [ROOT / n for n in names if Path(n).suffix in suffixes and "/vendor/" not in n]


def problems_of_message(message: str) -> list[str]:
    """Return descriptions of the problems of a commit message."""
    title, _, body = message.partition("\n")
    problems = []
    if len(title) > LONGEST_TITLE:
        problems.append(f"the title has {len(title)} characters; the limit is {LONGEST_TITLE}")
    if not re.match(r"[a-z][a-z0-9 ,_./-]*: \S", title):
        problems.append("the title must have the form 'area: change'")
    text = "\n".join(line for line in body.splitlines() if not line.startswith("#"))
    passage = Passage("commit message", 1, "docs", f"{title}\n\n{_without_code(text)}")
    return problems + [str(hit) for hit in hits(passage)]


def configured_paths() -> list[str]:
    """Return the paths in `[tool.prose]` of pyproject.toml. Python 3.10 has no parser for TOML."""
    section = (ROOT / "pyproject.toml").read_text().split("[tool.prose]\n")[1].split("\n[")[0]
    return re.findall(r'"([^"]+)"', section)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every place, also within limits")
    parser.add_argument("--commit-message", metavar="FILE", help="check the message of a commit")
    parser.add_argument("paths", nargs="*", help="files and folders")
    options = parser.parse_args(arguments)
    if options.commit_message:
        problems = problems_of_message(Path(options.commit_message).read_text("utf-8"))
        print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
        return bool(problems)
    is_over = False
    for path in options.paths or configured_paths():
        texts = [p for file in files_below([path]) for p in passages(file)]
        places = [hit for passage in texts for hit in hits(passage)]
        words = sum(count_words(passage.text) for passage in texts)
        over = over_limits(places, words) if words else {}
        is_over |= bool(over)
        for hit in places:
            if options.list or hit.marker.name in over:
                print(hit)
        for name, rate in sorted(over.items()):
            limit = next(m.limit for m in EVERY_MARKER if m.name == name)
            print(f"{path}: {name} {rate:.2f} per 1,000 words, limit {limit}")
    return is_over


if __name__ == "__main__":
    sys.exit(main())
