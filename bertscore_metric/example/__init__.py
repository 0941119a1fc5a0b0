"""Files to copy: texts for the command line, and training loops that score what they generate."""
