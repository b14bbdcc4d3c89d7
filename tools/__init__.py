"""Small tools of the repository itself; nothing here is installed."""
