"""Time lost to placement and priority."""
