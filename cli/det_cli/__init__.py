"""The `det` command line."""

__version__ = "0.38.1"


def product_version() -> str:
    """Return the version of Determined Serverless. `__version__` is the Determined version it is compatible with."""
    import importlib.metadata

    try:
        return importlib.metadata.version("determined-serverless")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"
