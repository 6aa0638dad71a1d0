"""SQL of reports that read sums for closed days, and rows for the rest of a period.

`closed` has the days of the period :after to :before with valid sums (db/money/closed_days.py). `ranges` has the times between.
"""

RANGES = """
    closed AS MATERIALIZED (
        SELECT c.day FROM closed_days c
        WHERE c.summed_at IS NOT NULL AND c.day >= cast(:after AS timestamptz)
            AND c.day <= cast(:before AS timestamptz) - interval '24 hours'
            AND NOT EXISTS (SELECT FROM changed_days x WHERE x.day = c.day)),
    ranges AS MATERIALIZED (
        SELECT y.after, y.before FROM (
            SELECT coalesce(lag(day) OVER (ORDER BY day) + interval '24 hours', cast(:after AS timestamptz)) AS after,
                day AS before
            FROM closed) y
        WHERE y.after < y.before
        UNION ALL
        SELECT coalesce(max(day) + interval '24 hours', cast(:after AS timestamptz)), cast(:before AS timestamptz) FROM closed
        HAVING coalesce(max(day) + interval '24 hours', cast(:after AS timestamptz)) < cast(:before AS timestamptz))
"""

# The days from :first to :last that are in :days.
DAYS = """(SELECT cast(:first AS timestamptz) AS after, cast(:last AS timestamptz) + interval '24 hours' AS before)"""


def days(start: str, end: str) -> str:
    """Return SQL of the days that an interval within a range `r` touches. Ranges begin at midnight."""
    return f"""generate_series(r.after + interval '24 hours' * greatest(0, floor(extract(epoch FROM {start} - r.after) / 86400)),
        least(r.before, {end}) - interval '1 microsecond', interval '24 hours') AS d (day)"""


def seconds_on_day(start: str, end: str) -> str:
    return f"extract(epoch FROM least({end}, d.day + interval '24 hours') - greatest({start}, d.day))::numeric"
