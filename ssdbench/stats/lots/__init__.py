"""Judge several drives of one model: what do they show about their lot and the model?"""
