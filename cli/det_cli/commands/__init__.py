"""What can be typed: one module of plain tables for each group of commands."""
