"""The contract in `alignkit.resizers` as tests."""

from __future__ import annotations

import numpy as np

from alignkit.resizers import RESIZERS, Resizer
from alignkit.testing.decoder_contract import check_threads, check_version, picture

TARGETS = {
    "shrunk": (24, 32),
    "enlarged": (130, 200),
    "squashed": (97, 61),
    "unchanged": (61, 97),
    "two rows": (2, 97),
}


class ResizerContract:
    """Tests of a resizer."""

    plugin: Resizer

    def test_gives_the_size_asked_for_and_leaves_its_input_alone(self) -> None:
        """Check shape and dtype, and that the input may be read-only or strided."""
        for height, width in TARGETS.values():
            image, size = picture(), f"61x97 to {height}x{width}"
            resized = self.plugin.resize(image, height, width)
            assert resized.shape == (height, width, 3), f"{size} gives shape {resized.shape}"
            assert resized.dtype in (np.uint8, np.float32), f"{size} gives {resized.dtype}"
            assert np.array_equal(image, picture()), f"{size} writes to its input"
            assert not np.shares_memory(resized, image), f"{size} returns memory of its input"
            frozen = image.copy()
            frozen.flags.writeable = False
            strided = np.ascontiguousarray(image[..., ::-1])[..., ::-1]
            for kind, given in (("read-only", frozen), ("strided", strided)):
                same = np.array_equal(self.plugin.resize(given, height, width), resized)
                assert same, f"{size} differs for a {kind} input"

    def test_keeps_a_plain_image_plain(self) -> None:
        """Check that an image of one colour keeps it."""
        plain = np.full((40, 50, 3), (200, 100, 30), np.uint8)
        apart = np.abs(self.plugin.resize(plain, 17, 23) - plain[0, 0].astype(float)).max()
        assert apart < 1e-3, f"a plain image changes by {apart:.3g} levels"

    def test_keeps_rows_columns_and_channels_apart(self) -> None:
        """Check that a bright corner of one channel, wider than it is high, stays where it is."""
        image = np.zeros((80, 120, 3), np.uint8)
        image[:20, :60, 0] = 255
        resized = self.plugin.resize(image, 20, 20)
        # away from its edge, which a wide filter blurs
        inside = float(resized[:2, :6, 0].min())
        outside = float(max(resized[9:].max(), resized[:, 14:].max()))
        others = float(resized[..., 1:].max())
        assert inside > 250, f"the bright corner has {inside:.1f} levels, expected over 250"
        assert outside < 5, f"the dark rest has up to {outside:.1f} levels, expected below 5"
        assert others == 0, f"the empty channels have up to {others:.1f} levels, expected 0"

    def test_may_be_called_from_threads(self) -> None:
        """Check that threads get the pixels of single calls."""
        images = [picture(), picture(40, 120), picture()[:50]]
        check_threads(lambda image: self.plugin.resize(image, 30, 40), images)

    def test_names_the_library_that_ran(self) -> None:
        """Check that ``version()`` names it in a version that cache keys hold too."""
        check_version(self.plugin, RESIZERS)
