"""Several drives of one model: what they say of their lot and of the model."""
