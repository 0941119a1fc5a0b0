"""What waits between calls: texts, columns of results, numbers of samples, kept embeddings."""
