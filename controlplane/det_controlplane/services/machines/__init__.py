"""Rent machines for what waits, and give them back."""
