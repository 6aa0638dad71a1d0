"""The interface version that the server and the agents report, and the version of this program."""

INTERFACE_VERSION = "0.38.1"
# pyproject.toml has the same version. Cloud functions have no package metadata to read it from.
PRODUCT_VERSION = "0.1.0"
