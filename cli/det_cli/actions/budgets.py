"""`det budget`: list, set and delete budgets."""

import argparse
from decimal import Decimal, InvalidOperation

from det_cli.connection import V1, connect
from det_cli.errors import UsageError
from det_cli.render import Column, say, show

_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda b: b["id"]),
    ("For", lambda b: f"{b['scope']} {b['scopeName']}"),
    ("Limit $", lambda b: f"{b['limitUsd']:.2f}"),
    ("Period", lambda b: b["period"]),
    ("Spent $", lambda b: f"{b['spentUsd']:.2f}"),
    ("Spent %", lambda b: f"{100 * b['spentUsd'] / b['limitUsd']:.0f}"),
    ("State", lambda b: b["state"]),
)


def list_(args: argparse.Namespace) -> None:
    show(
        args,
        _COLUMNS,
        connect(args).get(V1 + "/budgets")["budgets"],
        empty="there is no budget that you may see",
    )


def set_(args: argparse.Namespace) -> None:
    owners = {
        "experiment": args.experiment,
        "user": args.of_user,
        "workspace": args.workspace,
        "pool": args.pool,
    }
    scope = next((s for s in owners if owners[s]), None)
    if scope is None:
        raise UsageError(
            "what is the budget for?", "give --experiment, --user, --workspace or --pool"
        )
    check_amount(
        args.limit, "`det budget list` shows the budgets, `det budget delete ID` removes one"
    )
    period = "month" if args.monthly else "total"
    owner = owners[scope]
    body = {"scope": scope, "of": owner, "limitUsd": args.limit, "period": period}
    session = connect(args)
    budget = session.request("PUT", V1 + "/budgets", body=body)["budget"]
    say(
        f"Budget {budget['id']}: ${budget['limitUsd']:.2f} for {scope} {owner},"
        f" of which ${budget['spentUsd']:.2f} is spent."
    )
    if scope == "pool":
        rented = {pool["name"] for pool in session.get(V1 + "/rented-pools")["pools"]}
        if owner not in rented:
            say(
                f"Pool {owner} rents no machines: its jobs cost $0.00, so the budget has no effect."
            )


def check_amount(text: str, hint: str) -> None:
    """Raise UsageError for an amount that the cluster would reject as a budget."""
    try:
        amount = Decimal(text).quantize(Decimal("0.01"))
    except InvalidOperation:
        amount = Decimal(0)
    # Amounts below one cent round to 0.
    if not amount.is_finite() or not 0 < amount < 10**12:
        bounds = "above 0" if amount.is_nan() or amount <= 0 else "below 10^12"
        raise UsageError(
            f"a budget must be an amount in US dollars {bounds}, not '{text}'",
            hint,
        )


def delete(args: argparse.Namespace) -> None:
    connect(args).request("DELETE", f"{V1}/budgets/{args.budget_id}")
    say(f"Deleted budget {args.budget_id}.")
