"""Makes the helpers beside it importable from every test."""
