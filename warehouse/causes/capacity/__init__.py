"""Installed or owned, but not able to run for want of supply."""
