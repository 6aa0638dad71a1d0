"""Pictures of experiments and of the cluster for a terminal: states, their lines, and the loop that shows them."""
