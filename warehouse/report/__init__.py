"""Reports: one incident or one period as text that can be sent, every figure from the views at a named revision."""
