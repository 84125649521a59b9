"""Judge several drives of one model: what do these drives show about their lot and the model?"""
