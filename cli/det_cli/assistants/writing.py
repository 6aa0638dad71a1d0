"""The tools that plan, create and change experiments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from determined.common import context_upload
from determined.common.http import ConflictError, Session
from determined.common.log_stream import TERMINAL
from determined.common.otlp import caller_headers
from determined.common.pages import V1

from det_cli.actions import budgets, dry_run
from det_cli.assistants.answers import without_empty
from det_cli.assistants.plans import Plans, code_in, hash_of
from det_cli.errors import CommandError

_BEFORE = "this plan had created it before; this call did not change its budget"
_CONFIG_KEYS = ("name", "entrypoint", "resources", "searcher", "max_restarts")


class Planner:
    """Checks configurations and estimates their cost. A plan creates nothing."""

    def __init__(self, session: Session, plans: Plans, root: Path) -> None:
        self._session, self._plans, self._root = session, plans, root

    def plan_experiment(self, config: str, code_folder: str = "", project_id: int = 0) -> Any:
        """Check a configuration (YAML) and estimate trials, slots, hours and cost. Creates nothing.

        Returns a plan_token, which create_experiment needs. Show the estimate to the user before that.
        `code_folder` has the training code, relative to the folder in which the server was started.
        """
        folder, context = code_in(self._root, code_folder)
        body = {"config": config, "activate": False, "validateOnly": True, "modelDefinition": []}
        answer = self._session.post(f"{V1}/experiments", body)
        full = answer["config"]
        plan = self._plans.add(config, folder, hash_of(context), project_id or None)
        return without_empty(
            {
                "plan_token": plan.token,
                "estimate": list(dry_run.estimate_lines(self._session, full)),
                "warnings": answer.get("warningMessages"),
                "files": len([entry for entry in context.entries if not entry.is_dir]),
                "config": {key: full.get(key) for key in _CONFIG_KEYS},
                "next": "ask the user, then call create_experiment with plan_token and max_cost_usd",
            }
        )


class Writer:
    """Creates planned experiments and changes the state of experiments."""

    def __init__(self, session: Session, plans: Plans, root: Path) -> None:
        self._session, self._plans, self._root = session, plans, root

    def create_experiment(self, plan_token: str, max_cost_usd: float) -> Any:
        """Create and start the experiment of a plan. It pauses when its cost reaches max_cost_usd.

        A plan creates one experiment: if an answer is lost, call again with the same plan_token.
        """
        budgets.check_amount(str(max_cost_usd), "give the most that the user agreed to")
        plan = self._plans.find(plan_token)
        if plan.experiment_id is not None:
            return self._created(plan.experiment_id, _BEFORE)
        _, context = code_in(self._root, plan.folder)
        if hash_of(context) != plan.files:
            raise CommandError(
                f"the code in {plan.folder} changed after plan {plan_token}",
                "call plan_experiment again" if not plan.was_sent else
                "restore the code, or look for the experiment with list_experiments before you plan again",
            )  # fmt: skip
        plan = self._plans.sent(plan)
        body: dict[str, Any] = {"config": plan.config, "activate": False}
        if plan.project_id is not None:
            body["projectId"] = plan.project_id
        body.update(context_upload.send(self._session, context))
        answer = self._session.post(
            f"{V1}/experiments",
            body,
            headers={"Idempotency-Key": plan.token, **caller_headers()},
        )
        id = int(answer["experiment"]["id"])
        # The experiment is paused until its budget exists.
        budget = {
            "scope": "experiment",
            "of": str(id),
            "limitUsd": f"{max_cost_usd:.2f}",
            "period": "total",
        }
        self._session.put(f"{V1}/budgets", budget)
        self._session.post(f"{V1}/experiments/{id}/activate")
        self._plans.store(replace(plan, experiment_id=id))
        return self._created(id, f"it pauses when it has cost ${max_cost_usd:.2f}")

    def pause_experiment(self, experiment_id: int) -> Any:
        """Pause an experiment. Its trials save checkpoints and release their machines."""
        return self._change(experiment_id, "pause")

    def activate_experiment(self, experiment_id: int) -> Any:
        """Resume a paused experiment."""
        return self._change(experiment_id, "activate")

    def kill_experiment(self, experiment_id: int) -> Any:
        """End an experiment at once, without checkpoints. This cannot be undone."""
        return self._change(experiment_id, "kill")

    def _change(self, id: int, verb: str) -> Any:
        """Change the state of an experiment. A repeated call has no further effect."""
        path = f"{V1}/experiments/{id}"
        state = self._session.get(path)["experiment"]["state"]
        if state in TERMINAL:
            sentence = f"experiment {id} has ended ({state.removeprefix('STATE_')})"
            if verb == "kill":
                return {"id": id, "state": state.removeprefix("STATE_"), "note": sentence}
            raise ConflictError(409, f"{sentence}: it cannot {verb}")
        self._session.post(f"{path}/{verb}")
        return self._created(id, "")

    def _created(self, id: int, note: str) -> Any:
        experiment = self._session.get(f"{V1}/experiments/{id}")["experiment"]
        state = str(experiment["state"]).removeprefix("STATE_")
        return without_empty({"experiment_id": id, "state": state, "note": note})
