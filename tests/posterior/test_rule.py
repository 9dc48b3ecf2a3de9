import torch

from geonode.posterior.evidence import FittedSmoothers
from geonode.posterior.rule import WeightRule

LEVELS = torch.tensor([[0.0, 10.0, 20.0, 40.0]], dtype=torch.float64)
SPECTRA = torch.rand(1, 4, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TARGETS = torch.tensor([[30.0, 50.0]], dtype=torch.float64)


def evidence(scale=1.0):
    spectra = scale * SPECTRA
    return FittedSmoothers.of(LEVELS, spectra).evidence(TARGETS)


def test_before_learning_weights_are_the_fourth_power_of_the_error():
    found = evidence()
    weights, expected = WeightRule(2, 8)(found)
    fitted = FittedSmoothers.of(LEVELS, SPECTRA)
    errors = fitted.errors.mean(1).clone()
    errors[:, ~found.valid[0]] = torch.inf
    by_hand = errors**-4 / (errors**-4).sum()
    torch.testing.assert_close(weights, by_hand.expand(2, -1), rtol=1e-4, atol=1e-9)
    assert (expected > 0).all()


def test_a_network_is_deep_sets_written_out():
    """With all parts concatenated before they are multiplied, row by row."""
    torch.manual_seed(1)
    rule, found, plain = WeightRule(1, 8).double(), evidence(), torch.nn.Sequential.forward
    rule.standardise([evidence(), evidence(2.0)])
    (network,) = rule.every
    torch.nn.init.normal_(network.decide[2].weight)
    weights, logarithm = network(rule.inputs(found))
    assert not found.valid.all()
    for row, start in enumerate(found.initial):
        features = (found.features[row].T - rule.feature_mean) / rule.feature_deviation
        context = (found.context[row] - rule.context_mean) / rule.context_deviation
        features, context = features.clamp(-6, 6), context.clamp(-6, 6)
        common = context.expand(len(features), -1)
        encoded = plain(network.encode, torch.cat([features, network.description.T, common], 1))
        first = start.softmax(0) @ encoded
        even = encoded[start.isfinite()].mean(0)
        gathered = plain(network.gather, torch.cat([first, even, context]))
        both = torch.cat([encoded, gathered.expand(len(features), -1)], 1)
        expected = (start + 4 * plain(network.decide, both)[:, 0]).softmax(0)
        torch.testing.assert_close(weights[row], expected)
        error = plain(network.expect, torch.cat([expected @ encoded, first, gathered]))
        torch.testing.assert_close(logarithm[row], error[0])


def test_weights_know_no_unit_of_the_signal():
    rule = WeightRule(1, 8)
    torch.nn.init.normal_(rule.every[0].decide[-1].weight)
    (plain, size), (scaled, larger) = rule(evidence()), rule(evidence(1000.0))
    torch.testing.assert_close(plain, scaled, rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(larger, 1e6 * size, rtol=1e-3, atol=0)
