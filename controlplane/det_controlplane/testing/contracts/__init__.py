"""Contracts of ports: tests of the promises that every implementation must keep."""
