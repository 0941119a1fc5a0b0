"""Thin rooms, one for each library in which people use the score; each imports the core, never another room."""
