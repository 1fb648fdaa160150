"""The loader under Lightning: its epochs are the trainer's, also after a resume."""

from importlib.util import find_spec

import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from alignkit.loader import EncodedImages, MixedLoader, collate_encoded, seeded
from tests.loader.test_loader import CPU, GPU, samples

pytestmark = [
    pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Lightning's own
]


def loader() -> MixedLoader:
    inner = DataLoader(EncodedImages(samples()), 8, shuffle=True, collate_fn=collate_encoded)
    flip = seeded(v2.RandomHorizontalFlip())
    return MixedLoader(inner, CPU, GPU, transform=flip)


def fitted(epochs: int, resumed: str | None = None):
    """Train; return each epoch's path of each image, and the trainer."""
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * 32 * 32, 30)
            self.paths: dict[int, dict[str, str]] = {}

        def training_step(self, batch, index):
            images, labels = batch
            seen = self.paths.setdefault(self.current_epoch, {})
            seen |= zip(batch.ids, batch.paths, strict=True)
            self.log("loss", 0.0)  # which asks for the batch's size
            return torch.nn.functional.cross_entropy(self.layer(images.flatten(1)), labels)

        def validation_step(self, batch, index):
            assert set(batch.paths) == {"gpu"}

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    net, train = Net(), loader()
    check = train.prep_for_val(
        DataLoader(EncodedImages(samples()), 8, collate_fn=collate_encoded), GPU
    )
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(net, train, check, ckpt_path=resumed)
    return net.paths, trainer


def test_each_epoch_has_draws_of_its_own_and_a_resumed_one_has_the_same(tmp_path):
    first, trainer = fitted(2)
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    resumed, _ = fitted(3, str(tmp_path / "two.ckpt"))
    whole, _ = fitted(3)
    assert [*resumed] == [2]
    assert {**first, **resumed} == whole
    assert whole[0] != whole[1]
