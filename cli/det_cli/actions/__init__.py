"""The actions of the commands. A module is imported only when one of its commands runs."""
