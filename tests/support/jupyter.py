"""JupyterLab, as a browser uses it."""

import json
from pathlib import Path
from typing import Any


def write_notebook(path: Path, source: str) -> None:
    """Write a notebook with one cell."""
    cell: dict[str, Any] = {
        "id": "first", "cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source,
    }  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = {
        "cells": [cell],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(cells))


def run_first_cell(page: Any, base: str, name: str, prints: str) -> None:
    """Open a notebook below the address of a JupyterLab, and wait until its cell has printed a text."""
    # Without files of other notebooks in the home directory.
    page.goto(f"{base}lab/tree/{name}?reset")
    page.get_by_text("| Idle").first.wait_for()
    page.locator('[data-command="notebook:run-cell-and-select-next"]').first.click()
    page.locator(".jp-OutputArea-output", has_text=prints).first.wait_for()
