"""Contracts of ports: what every implementation promises, as tests that run on any of them."""
