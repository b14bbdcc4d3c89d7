"""Storage: the only code that talks to PostgreSQL. Rows in, rows out; no rule of the ledger lives here."""
