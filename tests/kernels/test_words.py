"""Sources of random words."""

import ast
import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cases import each_case

import rase
from rase.campaign import ShufflePlan
from rase.kernels.words import Keystream, SecureRandom, SeededRandom, source_of
from rase.shuffler.order import draw_order


def test_seeded_words_are_one_stream() -> None:
    """Words asked for in pieces are the words asked for at once, whatever the sizes."""
    at_once = SeededRandom(5).words(20_013)
    rng = SeededRandom(5)
    pieces = [rng.words(count) for count in (1, 3, 0, 7, 2, 20_000)]
    assert np.concatenate(pieces).tolist() == at_once.tolist()
    assert len(set(at_once.tolist())) == at_once.size


def test_seeds_and_children_differ() -> None:
    """Each seed and each child is a stream of its own, and a text is not a number."""
    sources = [SeededRandom(1), SeededRandom("1"), SeededRandom(2)]
    sources += [SeededRandom(1).child(0), SeededRandom(1).child("0"), SeededRandom(1).child(1)]
    assert len({int(source.words(1)[0]) for source in sources}) == len(sources)


def test_seeded_words_are_pinned() -> None:
    """The stream of a seed is part of the contract: results can be reproduced anywhere."""
    assert SeededRandom(2026).words(2).tolist() == [6818993268667236622, 7888292431464947408]


def test_secure_words_are_fresh_and_survive_a_fork() -> None:
    """Two calls, and the two sides of a fork, share no word (false alarms: 276 / 2^64)."""
    code = """
import os
from rase.kernels.words import SecureRandom
source = SecureRandom()
source.words(8)
child = os.fork()
if child:
    mine = [*source.words(8), *source.words(8)]
    os.waitpid(child, 0)
    print(*mine)
else:
    print(*source.words(8), flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == len(done.stdout.split()) == 24


def test_words_are_uniform_in_every_bit() -> None:
    """Each bit is set in half of 2^17 words. False alarms: 64 tests at 6.5 sigma, below 1e-8."""
    words = SeededRandom(2026).words(1 << 17)
    for bit in range(64):
        share = float(((words >> np.uint64(bit)) & np.uint64(1)).mean())
        assert abs(share - 0.5) < 6.5 * 0.5 / (1 << 17) ** 0.5


def test_the_default_source_is_secure_and_others_are_refused() -> None:
    """None means secure; a NumPy generator is not taken for noise."""
    assert isinstance(source_of(None), SecureRandom)
    seeded = SeededRandom(1)
    assert source_of(seeded) is seeded
    with pytest.raises(TypeError, match="rng must be None"):
        source_of(np.random.default_rng(1))  # type: ignore[arg-type]


@each_case("seed", [1.5, None, True])
def test_strange_seeds_are_refused(seed: object) -> None:
    """A seed is a whole number or a text."""
    with pytest.raises(TypeError, match="seed must be"):
        SeededRandom(seed)  # type: ignore[arg-type]


def test_seeded_sources_show_their_seed() -> None:
    """Seeded randomness is visible wherever it is printed."""
    assert repr(SeededRandom(7)) == "SeededRandom(7)"


@pytest.mark.uncovered
@each_case("method", ["fork", "spawn"])
def test_processes_of_a_pool_share_no_words(method: str) -> None:
    """Workers of a pool draw words of their own, forked ones too (false alarms: 378 / 2^64)."""
    mine = SecureRandom().words(4).tolist()
    with multiprocessing.get_context(method).Pool(2) as pool:
        drawn = pool.map(SecureRandom().words, [4] * 6, chunksize=1)
        pool.close()
        pool.join()
    every = mine + [int(word) for words in drawn for word in words]
    assert len(set(every)) == len(every) == 28


def test_a_stream_goes_on_and_streams_differ() -> None:
    """The words of one stream follow each other; two streams of the secure source share none.

    False alarms: 28 pairs of words that are equal with probability 2^-64 each.
    """
    key = bytes(range(32))
    stream = Keystream(key)
    pieces = np.concatenate([stream.words(3), stream.words(5), stream.words(0)])
    assert pieces.tolist() == Keystream(key).words(8).tolist()
    source = SecureRandom()
    words = [*source.stream().words(4), *source.stream().words(4)]
    assert len(set(words)) == 8
    seeded = SeededRandom(1)
    assert seeded.stream() is seeded


def test_the_shuffler_refuses_seeded_words() -> None:
    """Who knows the seed could undo the order, so production takes the secure type alone."""
    plan = ShufflePlan("uniform")
    with pytest.raises(TypeError, match="rng must be a SecureRandom"):
        draw_order(["a", "b"], plan, rng=SeededRandom(1))  # type: ignore[arg-type]


@each_case("room", ["device", "shuffler"])
def test_rooms_that_run_in_production_know_no_seeds(room: str) -> None:
    """No module of the device's agent or of the shuffler as much as names a seeded source."""
    folder = Path(rase.__file__).parent / room
    modules = sorted(folder.rglob("*.py"))
    assert modules
    for module in modules:
        names = {
            node.id
            for node in ast.walk(ast.parse(module.read_text("utf-8")))
            if isinstance(node, ast.Name)
        }
        assert not names & {"SeededRandom", "SeededEntropy"}


def test_a_seeded_source_knows_no_rows() -> None:
    """Its words are one stream: a part of the rows is drawn from the source itself."""
    source = SeededRandom(3)
    assert source.stream() is source
    assert source.part(np.array([True, False])) is source
