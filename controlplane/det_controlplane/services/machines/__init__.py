"""Rent machines for queued work and terminate them."""
