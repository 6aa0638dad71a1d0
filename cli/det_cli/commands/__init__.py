"""Declarations of the commands: one module per group."""
