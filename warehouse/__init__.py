"""GPU Minutes' warehouse: evidence in, a ledger of GPU time and money out."""

__version__ = "0.1.0"
