"""One file per command: a module with a constant `COMMAND` is a new `gpu-minutes NAME`."""
