"""Launchers. They start one worker for each slot, give it the addresses of its peers, and stop all workers together."""
