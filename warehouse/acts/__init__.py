"""Acts of people on the ledger: one file each, one transaction each, through the pipeline's end."""
