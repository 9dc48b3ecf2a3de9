import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from geonode import Calibration, MixtureCalibration, SpectralModel
from geonode.compute import threads as policy
from geonode.compute.threads import MOST_THREADS, in_threads, one_thread
from geonode.machine import usable_cores
from tests.geometry.precision import threads


def of_blas():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_one_thread_and_back_whoever_leaves_last():
    with threads(3), threadpool_limits(3):
        ours, theirs = one_thread(), one_thread()
        with ThreadPoolExecutor(1) as other:
            ours.__enter__()
            other.submit(theirs.__enter__).result()
            assert other.submit(torch.get_num_threads).result() == torch.get_num_threads() == 1
            assert of_blas() == {1}
            ours.__exit__(None, None, None)
            other.submit(theirs.__exit__, None, None, None).result()
            assert (torch.get_num_threads(), of_blas()) == (3, {3})
        with pytest.raises(ArithmeticError), one_thread(), one_thread():
            raise ArithmeticError
        assert (torch.get_num_threads(), of_blas()) == (3, {3})


@pytest.mark.parametrize(("cores", "several"), [(1, 1), (2, 2), (16, MOST_THREADS)])
def test_items_are_computed_in_order_by_few_threads_that_start_no_more(cores, several, monkeypatch):
    def work(item):
        time.sleep(0.01)
        here = threading.get_ident()
        assert {*in_threads(lambda _: threading.get_ident(), range(3))} == {here}
        return 2 * item, here

    reported = []
    monkeypatch.setattr(policy, "usable_cores", lambda: cores)
    doubled, threads_of_items = zip(*in_threads(work, range(24), reported.append), strict=True)
    assert doubled == tuple(range(0, 48, 2))
    assert len(set(threads_of_items)) == several
    assert reported == [1] * 24


def test_products_in_threads_are_those_of_one_thread(monkeypatch):
    """MKL divides other rows among two threads than among one, and rounds otherwise."""
    monkeypatch.setattr(policy, "usable_cores", lambda: 2)
    random = torch.Generator().manual_seed(0)
    rows, columns, much = (
        torch.rand(shape, dtype=torch.float64, generator=random) * size
        for shape, size in (((200, 6, 12), 30), ((18, 12), 1), ((18,), 100))
    )

    def products(_):
        return [torch.addmm(much, few, columns.T) for few in rows]

    with threads(2), one_thread():
        expected = products(0)
        for found in in_threads(products, range(2)):
            assert all(map(torch.equal, found, expected))


def answers():
    """What the classes for users say of some samples, as bytes."""
    random = np.random.default_rng(0)
    axis, levels = np.linspace(0, 1, 801), np.linspace(1, 9, 5)
    amounts = np.stack(np.meshgrid([0.0, 1, 2, 3], [0.0, 1, 2, 3]), -1).reshape(-1, 2)
    peaks = np.exp(-(((axis - [[0.3], [0.6]]) / 0.1) ** 2))
    spectra = levels[:, None] * peaks[0] + np.sin(levels)[:, None] * peaks[1]
    spectra = spectra + 0.01 * random.normal(size=spectra.shape)
    mixed = amounts @ peaks + 0.01 * random.normal(size=(len(amounts), len(axis)))
    model = SpectralModel.learn(levels, spectra, settings={"preset": "fast"})
    one, several = Calibration.fit(spectra, levels), MixtureCalibration.of(mixed, amounts)
    found = [*one.by_geonode(spectra + 0.1).__dict__.values(), *one.estimate(spectra + 0.1)]
    found += [fitted.left_out for fitted in one.fitted.values()]
    found += [several.estimate(mixed + 0.1).amounts, *several.by_method(mixed + 0.1).values()]
    found += [model.predict(np.array([2.5, 7])).factors, model.left_out().spectra]
    return [part.tobytes() for part in found if isinstance(part, np.ndarray)]


def test_what_users_import_depends_on_no_number_of_threads_and_leaves_it(monkeypatch):
    found = []
    for count in (1, 3):
        monkeypatch.setattr(policy, "usable_cores", lambda count=count: count)
        with threads(count), threadpool_limits(count):
            found.append(answers())
            assert (torch.get_num_threads(), of_blas()) == (count, {count})
    assert found[0] == found[1]


def test_commands_take_one_thread_an_operation_and_as_many_cores_as_they_may(monkeypatch):
    code = "from geonode.cli import app; app(['devices', '--json'])"
    environment = os.environ | {"OMP_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["machine"]["threads"] == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    for most, cores in (("8", 8), ("", 64), ("128", 64), ("0", 1), ("2,4", 64)):
        monkeypatch.setenv("OMP_NUM_THREADS", most)
        assert usable_cores() == cores
