"""The version of Determined's interface that is served and agents report, and that of this program."""

INTERFACE_VERSION = "0.38.1"
PRODUCT_VERSION = (
    "0.1.0"  # that of pyproject.toml: functions of a cloud have no metadata of packages
)
