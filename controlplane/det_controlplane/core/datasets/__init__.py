"""Data sets that agents keep near their GPUs: sources, and the pure rules of the cache (docs/guides/data.md)."""
