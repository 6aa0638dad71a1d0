"""Devices in Docker's syntax: `/host:/container[:mode]`."""


def device_of_text(text: str) -> dict[str, str]:
    """Return the device as an object. Raises ValueError."""
    parts = text.split(":")
    if not all(parts) or len(parts) not in (2, 3):
        raise ValueError(
            "must be '/host:/container', '/host:/container:mode' or an object with "
            f"host_path and container_path, not {text!r}"
        )
    return dict(zip(("host_path", "container_path", "mode"), parts, strict=False))
