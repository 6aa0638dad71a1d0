"""Build the files of a release, and describe them."""
