"""The `det` command line."""

__version__ = "0.38.1"


def product_version() -> str:
    """Return the version of Determined Serverless; `__version__` is that of Determined's interface."""
    import importlib.metadata

    try:
        return importlib.metadata.version("determined-serverless")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"
