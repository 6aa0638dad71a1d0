"""Holds the WebUI: scripts, styles and pages as browsers get them."""
