"""`det mcp`: tools with which an assistant uses the cluster (docs/guides/assistants.md)."""
