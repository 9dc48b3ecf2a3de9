import numpy as np
import torch

from geonode.posterior.metric_posterior import MetricPosterior
from geonode.posterior.prior import packaged_prior
from research import rule_learning as learning
from research.draws import Draws
from research.rule_learning import LearningParameters, learn_rule, left_out
from research.simulated_series import simulate

CPU = torch.device("cpu")


def some(seed=0):
    return simulate(Draws.of(seed, CPU), 2, 5)


def test_a_left_out_spectrum_changes_not_one_bit_of_its_evidence():
    concentrations, spectra = some()
    before = left_out(concentrations, spectra).evidence
    changed = spectra.clone()
    changed[0, 2] = 100 * torch.rand(spectra.shape[2], dtype=torch.float64)
    after = left_out(concentrations, changed).evidence
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old[2], new[2])  # the fold that leaves level 2 out
        assert torch.equal(old[5:], new[5:])  # the other series
    assert not torch.equal(before.features[1], after.features[1])


def test_squared_errors_are_those_of_the_prediction():
    concentrations, spectra = some()
    batch = left_out(concentrations, spectra)
    with torch.no_grad():
        weights, _ = packaged_prior().rule(batch.evidence)
    found = batch.squared_errors(weights).reshape(2, 5)
    for series in range(2):
        levels, signal = concentrations[series].numpy(), spectra[series].numpy()
        for level in range(5):
            others = [other for other in range(5) if other != level]
            known = signal[others]
            posterior = MetricPosterior.of(levels[None, others], known[None], packaged_prior())
            predicted = posterior.predict(levels[None, [level]]).weights[0, 0] @ known
            error = np.sum((predicted - signal[level]) ** 2)
            np.testing.assert_allclose(found[series, level], error, rtol=2e-3)


def test_learning_is_reproduced_bit_by_bit_and_goes_down(monkeypatch):
    monkeypatch.setattr(learning, "LEVELS", {4: 1})
    monkeypatch.setattr(learning, "FOLDS", 12)
    monkeypatch.setattr(learning, "STANDARDISING", 1)
    parameters = LearningParameters(seed=3, networks=2, width=4, steps=3)
    (first, history), (again, _) = (learn_rule(parameters, CPU) for _ in range(2))
    assert len(history) == 3
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        assert torch.isfinite(value).all()
