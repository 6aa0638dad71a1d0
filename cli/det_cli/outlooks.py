"""Show why searches ended early, or their expected gain: data, columns of tables, and a line of a summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from determined.common.http import NotFoundError, Session

from det_cli.connection import V1
from det_cli.live.charts import money, short
from det_cli.render import Column


def add(session: Session, responses: Sequence[Mapping[str, Any]]) -> None:
    """Add `search` to the experiments that have an expected gain or may end early: its gain and its ending."""
    for response in responses:
        experiment = response["experiment"]
        config = experiment.get("config") or response.get("config") or {}
        outlook = of(session, experiment["id"], config)
        if outlook is not None:
            experiment["search"] = outlook


def of(session: Session, experiment_id: int, config: Mapping[str, Any]) -> "dict[str, Any] | None":
    """Return the expected gain and the ending of a search, or None if its configuration excludes both."""
    searcher = config.get("searcher") or {}
    if searcher.get("name") != "model_asha" and not searcher.get("stop_when"):
        return None
    try:
        search = session.get(f"{V1}/experiments/{experiment_id}/search")
    except NotFoundError:
        return None  # an older cluster without the route
    return {"expectedGain": search.get("expectedGain"), "ending": search.get("ending")}


def columns(experiments: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of the gain and the ending, or () if no experiment has one of them."""
    if not any(_gain(e) or _ending(e) for e in experiments):
        return ()
    return (
        ("Expected Gain", lambda e: _gain(e).get("value")),
        ("Gain per Dollar", lambda e: _gain(e).get("perUsd")),
        ("Search Ended", lambda e: _ending(e).get("sentence")),
    )


def _gain(experiment: Mapping[str, Any]) -> Mapping[str, Any]:
    return (experiment.get("search") or {}).get("expectedGain") or {}


def _ending(experiment: Mapping[str, Any]) -> Mapping[str, Any]:
    return (experiment.get("search") or {}).get("ending") or {}


def sentence(gain: Mapping[str, Any], metric: str) -> str:
    """Return the expected gain of another full training, with its price if it has one."""
    limit = gain.get("limit")
    end = f" (the search ends below {short(limit)})" if limit else ""
    price = ""
    if gain.get("perUsd"):
        training = money(gain["usdOfTraining"])
        price = f", {short(gain['perUsd'])} for each dollar: a full training costs {training}"
    return f"expected gain in {metric} by another full training: {short(gain['value'])}{price}{end}"
