"""The declared commands: one module of plain tables for each group."""
