"""Exports of experiments, metrics, checkpoints and models to formats of other systems."""
