"""Judge several drives of one model, and what they show about their lot and the model."""
