"""The simulated world (docs/concepts/simulation.md)."""
