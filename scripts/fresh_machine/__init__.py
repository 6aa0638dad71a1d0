"""Machines that have nothing, made of Linux namespaces, to try first starts on."""
