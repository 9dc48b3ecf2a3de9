"""The default predictor: an average over many metrics of concentration space.

`charts` are the metrics, `smoothers` the Gaussian processes on them, `evidence` what the training
spectra imply for each, `rule` the learned weights, `posterior` the average, and `prior` the file
with the rule, which was learned on simulated series (`research.prior`). What made it is not here.
"""
