"""A rehearsal: every part of a new cluster tried once, with its time and cost."""
