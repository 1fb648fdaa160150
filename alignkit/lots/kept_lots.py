"""`KeptLots`: parts of lots in a workspace, each under the hash of all that it depends on."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from alignkit.lots import Lot, LotPart, LotWork, lot_count, lot_of
from alignkit.samples import Samples
from alignkit.workspace import Workspace, content_key

_FILE = "part.json.gz"


@dataclass(frozen=True, slots=True)
class KeptLots:
    """A `LotStore` that every engine, machine and later command shares."""

    workspace: Workspace

    def holds(self, work: LotWork[Any], lot: Lot, data: str) -> bool:
        """See `LotStore.holds`."""
        return self.workspace.stored("lots", content_key(_parts(work, lot, data))) is not None

    def find(self, work: LotWork[LotPart], lot: Lot, data: str) -> LotPart | None:
        """See `LotStore.find`."""
        read = partial(_part, work=work)
        return self.workspace.recall("lots", content_key(_parts(work, lot, data)), str(lot), read)

    def keep(self, work: LotWork[Any], lot: Lot, data: str, text: str) -> None:
        """See `LotStore.keep`."""
        parts = _parts(work, lot, data)
        with self.workspace.store("lots", parts, str(lot)) as folder:
            # without a date, so that equal parts are equal files
            (folder / _FILE).write_bytes(gzip.compress(text.encode(), 5, mtime=0))

    def stored(self, work: LotWork[Any], samples: Samples) -> list[Lot]:
        """List the lots of some images whose part is stored, damaged or not."""
        lots = (lot_of(samples, number) for number in range(lot_count(len(samples))))
        return [each for each in lots if self.holds(work, each, samples.fingerprint)]

    def forget(self, work: LotWork[Any], lot: Lot, data: str) -> None:
        """Delete a part that nobody needs any more."""
        self.workspace.discard("lots", content_key(_parts(work, lot, data)))


def _part(folder: Path, work: LotWork[LotPart]) -> LotPart:
    try:
        return work.parsed(gzip.decompress((folder / _FILE).read_bytes()).decode())
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(str(error)) from None


def _parts(work: LotWork[Any], lot: Lot, data: str) -> dict[str, Any]:
    place = [lot.begin, len(lot.samples)]
    return {**work.only(lot).identity(), "data": data, "lot": place}
