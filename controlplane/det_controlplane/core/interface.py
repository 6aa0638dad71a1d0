"""The interface of Determined that is served, and that agents tell of themselves."""

INTERFACE_VERSION = "0.38.1"
