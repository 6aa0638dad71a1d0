"""`det webhook`: URLs that receive events."""

import argparse
from typing import Any

from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import UsageError
from det_cli.render import local_time, show

_STATE, _LOG, _CUSTOM = "EXPERIMENT_STATE_CHANGE", "TASK_LOG", "CUSTOM"
_BUDGET = "budget"
_STRAGGLER = "straggler"
_DEADLINE = "deadline"
_SUBJECTS = {_BUDGET: "budgets", _STRAGGLER: "slow ranks", _DEADLINE: "deadlines in danger"}


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    spaces = {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}
    columns = [
        ("ID", lambda w: w["id"]),
        ("Name", lambda w: w["name"]),
        ("Workspace", lambda w: spaces.get(w["workspaceId"], w["workspaceId"] or "all")),
        ("Experiments", lambda w: "all" if w["mode"].endswith("WORKSPACE") else "selected by name"),
        ("Events", lambda w: ", ".join(map(_trigger_text, w["triggers"]))),
        ("Enabled", lambda w: "yes" if w["enabled"] else "no"),
        ("Format", lambda w: w["webhookType"].removeprefix("WEBHOOK_TYPE_").lower()),
        ("URL", lambda w: w["url"]),
    ]
    show(
        args,
        columns,
        session.get(f"{V1}/webhooks")["webhooks"],
        empty="there is no webhook that you may see",
    )


def _trigger_text(trigger: dict[str, Any]) -> str:
    kind, condition = trigger["triggerType"].removeprefix("TRIGGER_TYPE_"), trigger["condition"]
    if kind == _STATE:
        return f"{condition['state'].lower()} experiments"
    if kind == _LOG:
        return f"log lines with {condition['regex']!r}"
    return _SUBJECTS.get(condition.get("subject", ""), "alerts")


def create(args: argparse.Namespace) -> None:
    triggers = _triggers(args)
    if not triggers:
        raise UsageError(
            "no events are selected",
            "give --on completed, --on error, --on-log, --on-alert, --on-budget, --on-straggler or --on-deadline",
        )
    if args.on_alert and not args.specific:
        raise UsageError(
            "--on-alert needs --specific: alerts go only to webhooks that experiments select by name"
        )
    if args.cluster and args.workspace_name:
        raise UsageError("give --workspace-name or --cluster, not both")
    session = connect(args)
    body = {
        "name": args.name,
        "url": args.url,
        "webhookType": f"WEBHOOK_TYPE_{'SLACK' if args.slack else 'DEFAULT'}",
        "mode": f"WEBHOOK_MODE_{'SPECIFIC' if args.specific else 'WORKSPACE'}",
        "workspaceId": 0 if args.cluster else 1,
        "triggers": triggers,
    }
    if args.workspace_name:
        body["workspaceId"] = workspace_of(session, args.workspace_name)["id"]
    webhook = session.post(f"{V1}/webhooks", body)["webhook"]
    print(
        f"Created webhook {webhook['id']} '{webhook['name']}'. Try it: det webhook test {webhook['id']}"
    )


def _triggers(args: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        *(_trigger(_STATE, state=state.upper()) for state in dict.fromkeys(args.on)),
        *(_trigger(_LOG, regex=regex) for regex in args.on_log),
        *([_trigger(_CUSTOM)] if args.on_alert else []),
        *([_trigger(_CUSTOM, subject=_BUDGET)] if args.on_budget else []),
        *([_trigger(_CUSTOM, subject=_STRAGGLER)] if args.on_straggler else []),
        *([_trigger(_CUSTOM, subject=_DEADLINE)] if args.on_deadline else []),
    ]


def _trigger(kind: str, **condition: str) -> dict[str, Any]:
    return {"triggerType": f"TRIGGER_TYPE_{kind}", "condition": condition}


def edit(args: argparse.Namespace) -> None:
    fields = {
        "url": args.url, "name": args.name, "triggers": _triggers(args) or None,
        "enabled": None if args.enabled is None else args.enabled == "true",
    }  # fmt: skip
    changes = {name: value for name, value in fields.items() if value is not None}
    if not changes:
        raise UsageError(
            "nothing to change",
            "give --url, --name, --enabled, --on, --on-log, --on-alert, --on-budget, --on-straggler or --on-deadline",
        )
    connect(args).patch(f"{V1}/webhooks/{args.webhook_id}", changes)
    print(f"Changed webhook {args.webhook_id}")


def deliveries(args: argparse.Namespace) -> None:
    columns = [
        ("Time", lambda d: local_time(d["at"])),
        ("Event", lambda d: d["eventType"].lower().replace("_", " ")),
        ("Experiment", lambda d: d["experimentId"] or ""),
        ("Try", lambda d: d["attempt"]),
        ("Result", _result),
        ("Next try", lambda d: local_time(d["nextAt"])),
        ("Event ID", lambda d: d["eventId"]),
    ]
    response = connect(args).get(f"{V1}/webhooks/{args.webhook_id}/deliveries")
    show(args, columns, response["deliveries"], empty="no event was sent yet")


def _result(delivery: dict[str, Any]) -> str:
    if delivery["arrived"]:
        return "delivered"
    return str(delivery["failure"]) if delivery["nextAt"] else f"gave up: {delivery['failure']}"


def test(args: argparse.Namespace) -> None:
    connect(args).post(f"{V1}/webhooks/{args.webhook_id}/test", {})
    print(f"Test message of webhook {args.webhook_id} delivered")


def delete(args: argparse.Namespace) -> None:
    connect(args).delete(f"{V1}/webhooks/{args.webhook_id}")
    print(f"Deleted webhook {args.webhook_id}")
