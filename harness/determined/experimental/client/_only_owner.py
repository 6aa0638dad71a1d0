"""Explains why this package cannot work after Determined's own package replaced some of its files.

The `det` command of Determined imports this folder too, because Python prefers it to that package's `client.py`.
"""

import determined

if not hasattr(determined, "_DISTRIBUTION"):
    raise ImportError(
        "the packages determined and determined-serverless are in one environment and own the same files: run"
        " `pip uninstall determined`, then `pip install --force-reinstall --no-deps determined-serverless`, or use"
        " separate environments"
    )
