"""State machines, a small one for each thing: which states follow which, and why a move is refused."""
