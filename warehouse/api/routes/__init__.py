"""The routes; a file each, with a constant `ROUTER`."""
