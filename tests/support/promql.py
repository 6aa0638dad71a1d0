"""The series and labels that PromQL expressions name, and the series of a scrape."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r"\b([a-zA-Z_:][\w:]*)\b(?!\s*\()")
_WORDS = {"and", "or", "unless", "bool", "offset"}
Named = dict[str, set[str]]


def named(expression: str) -> Named:
    """Return the metrics of an expression with the labels that its matchers and groupings name."""
    text = _STRINGS.sub('""', expression)
    grouped = {
        label.strip() for match in _GROUPING.findall(text) for label in match.split(",") if label
    }
    text = _GROUPING.sub(" ", _RANGE.sub(" ", text))
    metrics: Named = defaultdict(set)
    for name, matchers in _SELECTOR.findall(text):
        metrics[name] |= set(_MATCHER.findall(matchers))
    for name in _NAME.findall(_SELECTOR.sub(r" \1 ", text)):
        if name not in _WORDS and not name[0].isdigit():
            metrics[name] |= set()
    for labels in metrics.values():
        labels |= grouped
    return dict(metrics)


def exported(pages: Iterable[str]) -> Mapping[str, set[str]]:
    """Return the metrics of some scrapes with the labels of their samples."""
    metrics: Named = defaultdict(set)
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                metrics[sample.name] |= set(sample.labels)
    return metrics
