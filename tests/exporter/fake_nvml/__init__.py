"""A driver library for tests, and the hand that scripts it."""
