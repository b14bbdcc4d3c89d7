"""What operators do on purpose, and the normal course of starting work."""
