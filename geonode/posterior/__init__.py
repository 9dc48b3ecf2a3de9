"""The default predictor: an average over many metrics of concentration space.

`charts` are the metrics, `smoothers` the Gaussian processes on them, `evidence` what the training
spectra say of each, `rule` the learned weights, `posterior` the average, and `prior` the file that
holds the rule. It was learned (`rule_learning`) on simulated series (`simulated_series`,
`responses`, `draws`).
"""
