"""Large values in files: buffers beside the pickle, mapped by those who read them."""

import pickle

import numpy as np
import pytest

from dataward.live.value_files import APART_BYTES, load_value, loads_value, size_of, value_parts


def written(path, value):
    path.write_bytes(b"".join(value_parts(value, pickle.dumps)))
    return path


def test_a_value_comes_back_as_it_was(tmp_path):
    value = {
        "large": np.arange(100_000),
        "odd": np.arange(APART_BYTES + 1, dtype=np.uint8),
        "columns": np.asfortranarray(np.ones((300, 400))),
        "small": np.arange(10),
        "strided": np.arange(200_000)[::2],
        "bytes": bytearray(APART_BYTES * 2),
    }
    path = written(tmp_path / "value", value)

    for found in (load_value(str(path)), loads_value(path.read_bytes())):
        assert found.keys() == value.keys()
        for name in value:
            assert type(found[name]) is type(value[name])
            assert np.array_equal(found[name], value[name]), name


def test_a_value_without_large_buffers_is_a_plain_pickle(tmp_path):
    value = ["x" * 100_000, np.arange(10)]
    path = written(tmp_path / "value", value)

    text, array = pickle.loads(path.read_bytes())

    assert text == value[0]
    assert np.array_equal(array, value[1])
    assert load_value(str(path))[0] == value[0]


def test_large_buffers_are_not_copied_into_the_pickle():
    array = np.arange(1_000_000)

    first, *rest = value_parts(array, pickle.dumps)

    assert len(first) < 1000
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in rest if part)
    assert size_of([first, *rest]) < array.nbytes + 1000


@pytest.mark.parametrize("is_mapped", [True, False])
def test_whoever_reads_a_value_may_change_it_for_himself(tmp_path, is_mapped):
    path = written(tmp_path / "value", np.zeros(100_000))
    content = path.read_bytes()
    found = load_value(str(path)) if is_mapped else loads_value(content)

    found += 1.0

    assert path.read_bytes() == content
    assert not load_value(str(path)).any()
    assert not loads_value(content).any()


def test_a_mapped_value_outlives_its_file(tmp_path):
    path = written(tmp_path / "value", np.arange(100_000))
    found = load_value(str(path))

    path.unlink()

    assert found.sum() == 100_000 * 99_999 // 2


def test_buffers_are_aligned(tmp_path):
    arrays = [np.arange(APART_BYTES + extra, dtype=np.uint8) for extra in (1, 2, 3)]
    path = written(tmp_path / "value", arrays)

    for found in (load_value(str(path)), loads_value(path.read_bytes())):
        assert all(array.ctypes.data % 64 == 0 for array in found)
