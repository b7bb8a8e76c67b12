"""The labs: one page module each, and beside it, with an underscore, its pure part."""
