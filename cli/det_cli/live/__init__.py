"""Live terminal screens of experiments and of the cluster: their state, their lines, and the display loop."""
