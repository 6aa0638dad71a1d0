"""What the commands do; a module is imported when its command runs."""
