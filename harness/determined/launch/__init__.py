"""Launchers: start one worker per slot, tell each who its peers are, and end them together."""
