"""Pure functions on tensors: from texts to scores, whatever gives the embeddings."""
