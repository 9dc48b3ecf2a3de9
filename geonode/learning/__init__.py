"""Training: folds, batches of networks, their trainer and its checkpoints."""
