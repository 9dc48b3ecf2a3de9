from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.errors import CorruptArtifactError, MissingArtifactError
from geonode.posterior.prior import PROBABILITIES, Prior, packaged_prior, read_prior
from geonode.posterior.rule import WeightRule
from tests.storage.damage import flip

COUNTS = np.array([3.0, 5.0, 9.0])
WIDTHS = np.arange(24.0).reshape(3, 2, 4)
MASSES = np.array([[0.94, 0.99], [0.92, 0.98], [0.84, 0.96]])


def prior():
    torch.manual_seed(0)
    said = {"networks": "2", "width": "8"}
    return Prior(WeightRule(2, 8).eval(), COUNTS, WIDTHS, MASSES, said)


def test_what_is_written_is_read(tmp_path):
    written = prior()
    written.write(tmp_path / "prior.safetensors")
    found = read_prior(tmp_path / "prior.safetensors")
    assert found.provenance == written.provenance
    np.testing.assert_array_equal(found.half_widths, WIDTHS)
    np.testing.assert_array_equal(found.masses, MASSES)
    for name, value in written.rule.state_dict().items():
        assert torch.equal(found.rule.state_dict()[name], value)


def test_what_is_no_prior_is_refused(tmp_path):
    path = tmp_path / "prior.safetensors"
    with pytest.raises(MissingArtifactError):
        read_prior(path)
    replace(prior(), provenance={}).write(path)
    with pytest.raises(CorruptArtifactError, match="no prior"):
        read_prior(path)
    flip(path)
    with pytest.raises(CorruptArtifactError, match="checksum"):
        read_prior(path)


@pytest.mark.parametrize(
    ("levels", "share"), [(2, 0.0), (3, 0.0), (4, 0.5), (5, 1.0), (7, 1.5), (9, 2.0), (40, 2.0)]
)
def test_half_widths_are_linear_between_the_numbers_of_levels(levels, share):
    found = prior().intervals(levels, np.array([True, False]))
    np.testing.assert_allclose(found, 8 * share + np.arange(8.0).reshape(2, 4))


def test_the_mass_of_sets_is_that_of_the_side_and_of_the_number_of_levels():
    inside = np.array([False, True, False])
    np.testing.assert_allclose(prior().mass_of_sets(4, inside), [0.985, 0.93, 0.985])
    np.testing.assert_allclose(prior().mass_of_sets(7, inside), [0.97, 0.88, 0.97])


def test_the_prior_of_the_package_says_where_it_comes_from():
    found = packaged_prior()
    assert found.provenance["command"] == "make prior"
    assert "simulated" in found.provenance["learned_on"]
    assert found.half_widths.shape == (len(found.counts), 2, len(PROBABILITIES))
    assert (np.diff(found.half_widths, axis=-1) > 0).all()
    assert found.masses.shape == (len(found.counts), 2)
    assert ((found.masses > 0.5) & (found.masses < 1)).all()
