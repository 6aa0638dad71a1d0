"""det resources"""

from det_cli.declare import Arg, Command, Group

SPAN = (
    Arg("timestamp_after", help="start time, such as 2026-11-01 or 2026-11-01T12:00:00Z (UTC)"),
    Arg("timestamp_before", help="end time, in the same form"),
)
JSON = Arg("--json", action="store_true", help="print JSON instead of CSV")

MEMBERS = {
    "resources": Group(
        "resources",
        "report the usage and cost of resources",
        Command(
            "aggregated",
            "print slot-hours and cost per day or month, user, label and pool, as CSV",
            "usage:aggregated",
            Arg(
                "start_date",
                help="the first day, such as 2026-11-01; with --monthly the first month, such as 2026-11",
            ),
            Arg("end_date", help="the last day, inclusive; with --monthly the last month"),
            JSON,
            Arg("--monthly", action="store_true", help="group by month instead of by day"),
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
            "print allocations and rented machines with their cost, as CSV",
            "usage:raw",
            *SPAN,
            JSON,
        ),
        aliases=["res"],
    )
}
