"""What rented machines cost, and budgets that bound it."""
