"""What is checked on a machine with a real GPU: one script, known to work over the fake driver library."""
