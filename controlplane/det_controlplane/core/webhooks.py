"""Webhooks: their triggers and the messages that they send (docs/guides/webhooks.md)."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.core.patterns import InvalidPattern, compiled
from det_controlplane.core.problems import Problem, shown
from det_controlplane.core.secrets import HIDDEN

MOST_TRIGGERS = 50
LONGEST_URL = 2000
LONGEST_NAME = 200
# Slack rejects a message with a longer section.
_LONGEST_SECTION = 3000
_LONGEST_LINE = 1000
_COMPLETED = "Your experiment completed successfully 🎉"
_STATUS = {"COMPLETED": "Completed", "ERROR": "Errored"}


class WebhookType(str, Enum):
    DEFAULT = "DEFAULT"  # the message as JSON
    SLACK = "SLACK"


class WebhookMode(str, Enum):
    WORKSPACE = "WORKSPACE"  # applies to every experiment of its workspace that does not opt out
    SPECIFIC = "SPECIFIC"  # applies to experiments that name it


class TriggerType(str, Enum):
    EXPERIMENT_STATE_CHANGE = "EXPERIMENT_STATE_CHANGE"
    TASK_LOG = "TASK_LOG"
    CUSTOM = "CUSTOM"


# The experiment states that can trigger a webhook.
STATES = ("COMPLETED", "ERROR")
# The subject of custom triggers for budget changes. A new trigger type would be unknown to Determined's client.
BUDGETS = "budget"
STRAGGLERS = "straggler"  # the same for slow ranks
DEADLINES = "deadline"  # the same for deadlines in danger
SUBJECTS = (BUDGETS, STRAGGLERS, DEADLINES)


@dataclass(frozen=True, slots=True)
class Trigger:
    type: TriggerType
    condition: Mapping[str, str]  # {state}, {regex}, {subject} or empty


@dataclass(frozen=True, slots=True)
class NewWebhook:
    name: str
    url: str
    type: WebhookType
    mode: WebhookMode
    workspace_id: int | None  # None: all workspaces
    triggers: Sequence[Trigger]


@dataclass(frozen=True, slots=True)
class Message:
    """The bytes to post, and their headers."""

    body: bytes
    headers: Mapping[str, str]


def problems_of(new: NewWebhook) -> list[Problem]:
    return [
        *name_problems(new.name),
        *url_problems(new.url),
        *trigger_problems(new.triggers, new.mode),
    ]


def trigger_problems(triggers: Sequence[Trigger], mode: WebhookMode) -> list[Problem]:
    problems = []
    if not triggers:
        problems.append(
            Problem("triggers", "give at least one: a webhook without any sends nothing")
        )
    if len(triggers) > MOST_TRIGGERS:
        problems.append(Problem("triggers", f"there may be {MOST_TRIGGERS} at most"))
    for number, trigger in enumerate(triggers):
        problems += _problems_of_one(f"triggers[{number}]", trigger, mode)
    return problems


def name_problems(name: str) -> list[Problem]:
    if len(name) > LONGEST_NAME:
        return [Problem("name", f"may have {LONGEST_NAME} characters at most")]
    return []


def url_problems(url: str) -> list[Problem]:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        return [Problem("url", f"{shown(url)} is not an address like https://example.com/path")]
    if HIDDEN in url:
        return [Problem("url", f"{HIDDEN} stands for what is not shown: give the whole address")]
    if len(url) > LONGEST_URL:
        return [Problem("url", f"may have {LONGEST_URL} characters at most")]
    return []


def shown_address(url: str) -> str:
    """Return a URL without its secret parts. The path of a chat system's webhook authorizes its sender."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = f"{parts.scheme}://{host}"
    return url if url.rstrip("/") == bare else f"{bare}/{HIDDEN}"


def _problems_of_one(path: str, trigger: Trigger, mode: WebhookMode) -> list[Problem]:
    condition = trigger.condition
    if trigger.type is TriggerType.EXPERIMENT_STATE_CHANGE:
        if condition.get("state") in STATES:
            return []
        message = f"{shown(condition.get('state'))} is none of {', '.join(STATES)}"
        return [Problem(f"{path}.condition.state", message)]
    if trigger.type is TriggerType.TASK_LOG:
        return _regex_problems(f"{path}.condition.regex", condition.get("regex", ""))
    subject = condition.get("subject")
    if subject not in (None, *SUBJECTS):
        message = f"{shown(subject)} is none of {', '.join(SUBJECTS)}"
        return [Problem(f"{path}.condition.subject", message)]
    if subject is None and mode is not WebhookMode.SPECIFIC:
        message = "alerts go to webhooks that experiments choose (mode SPECIFIC), which"
        return [Problem(path, f"{message} `det webhook create --specific` makes")]
    return []


def _regex_problems(path: str, regex: str) -> list[Problem]:
    if not regex:
        return [Problem(path, "give the regular expression that lines are searched for")]
    try:
        compiled(regex)
    except InvalidPattern as e:
        return [Problem(path, f"{shown(regex)} {e}")]
    return []


def message(
    kind: WebhookType, payload: Mapping[str, Any], *, base_url: str, signing_key: str, now_s: int
) -> Message:
    """Return the message about an event, with a signature if the cluster has a key."""
    content = payload["event"] if kind is WebhookType.DEFAULT else slack(payload, base_url)
    body = json.dumps(content, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json"}
    if signing_key:
        headers["X-Determined-AI-Signature-Timestamp"] = str(now_s)
        headers["X-Determined-AI-Signature"] = signature(signing_key, now_s, body)
    return Message(body, headers)


def signature(key: str, timestamp: int, body: bytes) -> str:
    return hmac.new(key.encode(), b"%d,%s" % (timestamp, body), hashlib.sha256).hexdigest()


def test_event(event_id: str, now_s: int) -> dict[str, Any]:
    event = {
        "event_id": event_id,
        "event_type": TriggerType.EXPERIMENT_STATE_CHANGE.value,
        "timestamp": now_s,
        "condition": {"state": "COMPLETED"},
        "event_data": {"data": "test"},
    }
    return {"event": event}


def slack(payload: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """Return an event as a Slack message: blocks with a headline, and an attachment about the experiment."""
    event, experiment = payload["event"], payload.get("experiment") or {}
    data = event["event_data"]
    if "custom_data" in data:
        custom = data["custom_data"]
        is_bad = custom["level"] in ("ERROR", "CRITICAL")
        # Training code may use markup in its own alerts. A budget's title contains a name that any user can choose.
        title = _plain(custom["title"]) if "budget" in data else custom["title"]
        headline = f"{'❌' if is_bad else ':information_source:'} {title or 'Alert'}"
        sections = [_section(text) for text in (headline, custom["description"]) if text]
        return _slack(headline, sections, _attachment(experiment, base_url, is_bad=is_bad))
    if "task_log" in data:
        text = _matched_line(event["condition"].get("regex", ""), data["task_log"], experiment)
        link = _link(f"{_trial_path(experiment)}/logs", "View full logs here", base_url)
        return _slack("A log line matched", [_section("\n".join(t for t in (text, link) if t))])
    if experiment:
        is_bad = experiment["state"] != "COMPLETED"
        headline = "Your experiment has stopped with errors" if is_bad else _COMPLETED
        attachment = _attachment(experiment, base_url, is_bad=is_bad)
    else:
        headline, attachment = "This is a test of a webhook", None
    return _slack(headline, [_section(headline, "plain_text")], attachment)


def _slack(
    headline: str, blocks: Sequence[Mapping[str, Any]], attachment: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a message. Slack shows `text` only in notifications."""
    slack_message = {"text": headline, "blocks": blocks}
    return slack_message if attachment is None else {**slack_message, "attachments": [attachment]}


def _section(text: str, kind: str = "mrkdwn") -> dict[str, Any]:
    return {"type": "section", "text": {"type": kind, "text": text[:_LONGEST_SECTION]}}


def _matched_line(regex: str, line: Mapping[str, Any], experiment: Mapping[str, Any]) -> str:
    log, regex = _plain(line["triggering_log"][:_LONGEST_LINE]), _plain(regex[:_LONGEST_LINE])
    trial = f", Trial ID `{experiment['trial_id']}`" if experiment.get("trial_id") else ""
    place = f"Experiment ID `{experiment['id']}`{trial}, running on node `{line['node_name']}`"
    return f"{place}, reported a log\n```{log}```\nThis log matched the regex\n```{regex}```"


def _attachment(
    experiment: Mapping[str, Any], base_url: str, *, is_bad: bool
) -> dict[str, Any] | None:
    if not experiment:
        return None
    name = f"{experiment['name']} (#{experiment['id']})"
    link = _link(f"/det/experiments/{experiment['id']}/overview", name, base_url) or _plain(name)
    fields = {
        "Status": _STATUS.get(experiment["state"], experiment["state"]),
        "Duration": _duration(int(experiment["duration"] or 0)),
        "Workspace": _plain(experiment["workspace"]),
        "Project": _plain(experiment["project"]),
    }
    if experiment.get("trial_id"):
        fields["Trial"] = str(experiment["trial_id"])
    texts = [f"*{label}*: {value}" for label, value in fields.items()]
    block = _section(f"{'❌' if is_bad else '✅'} {link}")
    block["fields"] = [{"type": "mrkdwn", "text": text} for text in texts]
    return {"color": "danger" if is_bad else "good", "blocks": [block]}


def _trial_path(experiment: Mapping[str, Any]) -> str:
    trial = f"/trials/{experiment['trial_id']}" if experiment.get("trial_id") else ""
    return f"/det/experiments/{experiment['id']}{trial}"


def _link(path: str, text: str, base_url: str) -> str:
    return f"<{base_url.rstrip('/')}{path} | {_plain(text)}>" if base_url else ""


def _plain(text: str) -> str:
    """Return text that Slack does not interpret as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _duration(seconds: int) -> str:
    return f"{seconds // 3600}h {seconds // 60 % 60}min"
