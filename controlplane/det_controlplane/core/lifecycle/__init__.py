"""One small transition table a thing: which states follow which, and why a move is refused."""
