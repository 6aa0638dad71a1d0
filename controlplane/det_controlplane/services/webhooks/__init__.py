"""Send events to other systems by webhooks."""
