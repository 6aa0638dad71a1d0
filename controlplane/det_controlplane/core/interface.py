"""The version of Determined's interface that is served, and that agents report."""

INTERFACE_VERSION = "0.38.1"
