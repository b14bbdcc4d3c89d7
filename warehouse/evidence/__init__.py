"""What comes in: files and live sources, each turned into statements. No storage, no rule of the ledger."""
