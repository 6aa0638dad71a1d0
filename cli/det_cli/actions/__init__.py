"""The actions of the commands; a module is imported when its command runs."""
