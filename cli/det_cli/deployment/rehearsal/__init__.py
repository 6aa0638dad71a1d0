"""A rehearsal tests every part of a new cluster once and reports the time and cost of each step."""
