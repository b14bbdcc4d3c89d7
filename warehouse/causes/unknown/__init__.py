"""No cause is known."""
