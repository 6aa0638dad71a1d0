"""Empty machines, made of Linux namespaces, for testing first starts."""
