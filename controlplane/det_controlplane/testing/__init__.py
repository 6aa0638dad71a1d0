"""Contracts that authors of search methods and clouds inherit in their tests, and clouds in memory."""
