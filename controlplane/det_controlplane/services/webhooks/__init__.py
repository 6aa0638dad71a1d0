"""Tell other systems what happened, by webhooks."""
