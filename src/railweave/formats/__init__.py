"""Readers and writers of other people's files: text in, typed records out."""
