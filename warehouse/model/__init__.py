"""The words of the ledger as frozen values: no clock, no configuration, no I/O, standard library only."""
