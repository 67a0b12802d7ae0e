"""Other programs that run conversions or read records: a module for each."""
