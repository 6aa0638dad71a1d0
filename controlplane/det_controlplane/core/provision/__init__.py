"""Decide which machines to rent, drain and terminate."""
