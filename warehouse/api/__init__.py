"""The HTTP service: what comes in over the network, and what machines ask; one file per route."""
