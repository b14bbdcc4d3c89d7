"""Rules of recurring maintenance, unfolded on the wall clock of their zone."""
