"""The published method: folds, training, metric learning, path decoders, blend.

From parameters to weights: `metric_learning.learn` and `blend.fit_blend` train over the folds of a
run (`context`, `folds`). An objective defines what is trained (`end_to_end.EndToEnd` for metrics,
`path_decoder.PathDecoding` for decoders). `objective.fit` divides the models into batches
(`batches`) and trains each (`trainer`, with `checkpoint`).

From weights to spectra: `path_features` solves the geodesics of learned metrics, decoders predict
from them (`predicted`, `path_decoder`; `posterior_decoder` needs none), and `blend` averages kinds
of decoders and gives intervals, both by the errors inside the folds.
"""
