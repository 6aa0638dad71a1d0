"""det job"""

from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, paging

ID = Arg("job_id", help="the job's id")

MEMBERS = {
    "job": Group(
        "job",
        "look at the queue and reorder it",
        Command(
            "list",
            "list the jobs of a pool in the order of the queue",
            "jobs:list_",
            Arg(
                "-p", "-rp", "--resource-pool", help="the pool (default: the default compute pool)"
            ),
            *paging(100),
            Arg("--reverse", action="store_true", help="last first"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "update",
            "change a job's place in the queue",
            "jobs:update",
            ID,
            OneOf(
                Arg("-p", "--priority", type=int, help="1 to 99, 1 is first (priority scheduler)"),
                Arg("-w", "--weight", type=float, help="its share (fair share scheduler)"),
                Arg("-rp", "--resource-pool", help="move it to this pool"),
                Arg("--ahead-of", metavar="JOB_ID", help="put it just before this job"),
                Arg("--behind-of", metavar="JOB_ID", help="put it just after this job"),
            ),
            aliases=["u"],
        ),
        Command(
            "update-batch",
            "change several jobs, in the order given",
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
