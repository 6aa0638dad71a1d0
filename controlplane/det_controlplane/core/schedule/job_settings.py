"""The bounds of the values that order and limit a job: priority, weight and max_slots."""

HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 99
LARGEST_WEIGHT = 1e9  # shares by weight stay numbers


def out_of_bounds(name: str, value: float) -> str | None:
    """Return the sentence that refuses a value of `name`; None for one that is within its bounds."""
    if name == "priority" and not HIGHEST_PRIORITY <= value <= LOWEST_PRIORITY:
        span = f"between {HIGHEST_PRIORITY} (first) and {LOWEST_PRIORITY} (last)"
        return f"priority must be {span}, not {value}"
    if name == "weight" and not 0 < value <= LARGEST_WEIGHT:
        return f"weight must be above 0 and {LARGEST_WEIGHT:,.0f} at most, not {value}"
    if name == "max_slots" and value < 0:
        return f"max_slots must be at least 0, not {value}"
    return None
