"""What a fault looks like; kept as evidence, never charged."""
