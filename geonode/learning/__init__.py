"""Learning without leakage: folds, end-to-end metrics, leave-one-out decoders."""
