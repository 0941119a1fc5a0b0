"""Names and files -> tokenizers and encoders: the only callers of transformers and of a model."""
