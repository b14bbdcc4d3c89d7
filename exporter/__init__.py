"""The GPU Minutes node exporter: what each GPU says, exactly, and what it does not say, plainly."""

__version__ = "0.1.0"
