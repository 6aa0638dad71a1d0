"""Decide which machines to rent, to drain and to give back."""
