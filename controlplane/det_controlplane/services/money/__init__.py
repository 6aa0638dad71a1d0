"""Account for the cost of rented machines, and bound it by budgets."""
