"""Tokens, prices and budgets."""
