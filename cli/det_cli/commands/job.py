"""det job"""

from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, paging

ID = Arg("job_id", help="the job's id")

MEMBERS = {
    "job": Group(
        "job",
        "show and reorder the job queue",
        Command(
            "list",
            "list the jobs of a pool in queue order",
            "jobs:list_",
            Arg(
                "-p", "-rp", "--resource-pool", help="the pool (default: the default compute pool)"
            ),
            *paging(100),
            Arg("--reverse", action="store_true", help="list the last job first"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "update",
            "change a job's priority, weight, pool or position in the queue",
            "jobs:update",
            ID,
            OneOf(
                Arg("-p", "--priority", type=int, help="1 (highest) to 99 (priority scheduler)"),
                Arg("-w", "--weight", type=float, help="weight (fair-share scheduler)"),
                Arg("-rp", "--resource-pool", help="move it to this pool"),
                Arg("--ahead-of", metavar="JOB_ID", help="move it directly before this job"),
                Arg("--behind-of", metavar="JOB_ID", help="move it directly after this job"),
            ),
            aliases=["u"],
        ),
        Command(
            "update-batch",
            "change several jobs in the given order",
            "jobs:update_batch",
            Arg(
                "operation",
                nargs="+",
                metavar="JOB_ID.OPERATION=VALUE",
                help="OPERATION is priority, weight, resource-pool, ahead-of or behind-of",
            ),
        ),
        aliases=["j"],
        default="list",
    )
}
