"""det resources"""

from det_cli.declare import Arg, Command, Group

SPAN = (
    Arg("timestamp_after", help="the beginning, like 2026-11-01 or 2026-11-01T12:00:00Z (UTC)"),
    Arg("timestamp_before", help="the end, in the same form"),
)
JSON = Arg("--json", action="store_true", help="print JSON instead of CSV")

MEMBERS = {
    "resources": Group(
        "resources",
        "report who used what, and what it cost",
        Command(
            "aggregated",
            "print slot-hours and cost by day or month, user, label and pool, as CSV",
            "usage:aggregated",
            Arg("start_date", help="the first day, like 2026-11-01; with --monthly 2026-11"),
            Arg(
                "end_date", help="the last day, or with --monthly the last month, which counts too"
            ),
            JSON,
            Arg("--monthly", action="store_true", help="by month instead of by day"),
            aliases=["agg"],
        ),
        Command(
            "allocations",
            "print allocations with their slot-hours, as CSV",
            "usage:allocations",
            *SPAN,
            aliases=["alloc"],
        ),
        Command(
            "raw",
            "print allocations and rented machines with what they cost, as CSV",
            "usage:raw",
            *SPAN,
            JSON,
        ),
        aliases=["res"],
    )
}
