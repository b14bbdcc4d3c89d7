"""The heart: claims in, a tiling out, its laws, its price. Pure; its cost follows claims, not GPUs x minutes."""
