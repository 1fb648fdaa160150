"""Records of batches are joined as they are, or refused."""

import numpy as np
import pytest

from alignkit.errors import BackendError
from alignkit.predict.decoder import KeptRecords

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("start", "found", "said"),
    [
        (2, np.ones((2, 1), np.float32), r"rows of float32 \(3,\), and from image 2 on .* \(1,\)"),
        (2, np.ones((1, 3), np.float64), "from image 2 on rows of float64"),
        (2, [None, None], "from image 2 on values of a list"),
        (3, ROWS, "records of the images 3 to 4 of 4"),
    ],
)
def test_a_batch_unlike_the_first_is_refused_and_not_repeated_or_rounded(start, found, said):
    records = KeptRecords(4)
    records.put(0, ROWS)
    with pytest.raises(BackendError, match=said):
        records.put(start, found)
    records.put(2, ROWS + 6)
    np.testing.assert_array_equal(records.all, np.arange(12).reshape(4, 3))


def test_a_list_does_not_grow():
    records = KeptRecords(3)
    records.put(0, ["a", "b"])
    with pytest.raises(BackendError, match="records of the images 2 to 3 of 3"):
        records.put(2, ["c", "d"])
    with pytest.raises(BackendError, match=r"values of a list, and .* rows of float32"):
        records.put(0, ROWS)
