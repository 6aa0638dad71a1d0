"""Static fleets: install, upgrade and remove the agent on machines that SSH reaches."""
