"""Weights by name are loaded by the library that names them, from its cache, and proven to be them."""

import hashlib
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
import torch

from alignkit.errors import ConfigError, DataError, MissingDependency
from alignkit.experiment.train_option import Recipe
from alignkit.models.architectures import build_model, load_model, weights_hash
from alignkit.models.pretrained import (
    begin_with,
    identity,
    imagenet_classes,
    published_outputs,
    read_pretrained,
)
from alignkit.models.user_model import UserModel
from alignkit.train import read_log
from alignkit.workspace import Workspace, content_key
from tests.training_case import digits_case

MODEL = "squeezenet1_1"
NOWHERE = "http://127.0.0.1:9/"


def publish(model, content, monkeypatch, tmp_path):
    """Put a file into torch's cache under the name that torchvision's weights then have."""
    from torchvision.models import get_model_weights

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    file = folder / "new.pth"
    torch.save(content, file)
    name = f"{model}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}.pth"
    file = file.rename(folder / name)
    monkeypatch.setattr(get_model_weights(model).IMAGENET1K_V1.value, "url", NOWHERE + name)
    return file


@pytest.fixture
def published(monkeypatch, tmp_path):
    content = build_model(MODEL, 1000, 64, 64).state_dict()
    return publish(MODEL, content, monkeypatch, tmp_path), content


def test_weights_by_name_come_from_torchvisions_cache_and_the_head_stays_as_drawn(published):
    _, content = published
    target = build_model(MODEL, 7, 64, 64)
    head = target.state_dict()["classifier.1.weight"].clone()
    told = begin_with(target, "IMAGENET1K_V1", MODEL)
    own = target.state_dict()
    assert torch.equal(own["features.0.weight"], content["features.0.weight"])
    assert torch.equal(own["classifier.1.weight"], head)
    assert told["initialised"] == ["classifier.1.weight", "classifier.1.bias"]
    assert told["sha256"] == weights_hash(content)


def test_with_as_many_classes_the_head_is_the_published_one(published):
    _, content = published
    target = build_model(MODEL, 1000, 64, 64)
    assert begin_with(target, "DEFAULT", MODEL)["initialised"] == []
    assert weights_hash(target.state_dict()) == weights_hash(content)


def test_an_identity_is_known_before_any_download_and_says_what_default_is(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert identity("IMAGENET1K_V1", "resnet50") == "IMAGENET1K_V1 (resnet50-0676ba61.pth)"
    assert identity("DEFAULT", "resnet50") == "IMAGENET1K_V2 (resnet50-11ad3fa6.pth)"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        ("resnet50", "IMAGENET1K_V3", "did you mean 'IMAGENET1K_V"),
        ("small-cnn", "DEFAULT", "no published weights; give a file"),
        ("inception_v3", "DEFAULT", "another scale of the input"),
        ("resnet50", "./absent.pt", "no file absent.pt"),
    ],
)
def test_what_no_library_names_is_refused_in_the_plan(model, name, message):
    with pytest.raises(ConfigError, match=message):
        identity(name, model)


def test_a_failing_download_names_the_file_and_the_place_for_it(published):
    file, _ = published
    file.unlink()
    with pytest.raises(MissingDependency) as error:
        read_pretrained("IMAGENET1K_V1", MODEL)
    assert f"{NOWHERE}{file.name} where there is a network" in str(error.value)
    assert str(error.value).endswith(f"put it into {file.parent}")


def test_a_cached_file_that_is_not_the_published_one_is_refused(published):
    file, _ = published
    torch.save(build_model(MODEL, 1000, 64, 64).state_dict(), file)
    with pytest.raises(ConfigError, match="is not the published file"):
        read_pretrained("IMAGENET1K_V1", MODEL)


def test_a_published_pickle_that_would_run_code_is_refused(monkeypatch, tmp_path):
    publish(MODEL, build_model(MODEL, 10, 64, 64), monkeypatch, tmp_path)
    with pytest.raises(ConfigError, match="was refused"):
        read_pretrained("IMAGENET1K_V1", MODEL)


def test_weights_of_a_file_begin_a_training_and_only_the_head_may_differ(tmp_path):
    source, target = build_model("small-cnn", 7, 32, 32), build_model("small-cnn", 10, 32, 32)
    file = tmp_path / "weights.pt"
    torch.save(source.state_dict(), file)
    head = target.state_dict()["18.weight"].clone()
    told = begin_with(target, str(file), "small-cnn")
    assert torch.equal(target.state_dict()["0.weight"], source.state_dict()["0.weight"])
    assert torch.equal(target.state_dict()["18.weight"], head)
    assert told["identity"] == f"SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    torch.save({"other": torch.zeros(1)}, file)
    with pytest.raises(ConfigError, match="tensors fit; 26 missing"):
        begin_with(target, str(file), "small-cnn")
    torch.save([torch.zeros(1)], file)
    with pytest.raises(DataError, match="no state_dict"):
        begin_with(target, str(file), "small-cnn")
    torch.save(source, file)
    with pytest.raises(DataError, match="was refused"):
        begin_with(target, str(file), "small-cnn")


def test_a_training_logs_what_it_began_with(tmp_path):
    file = tmp_path / "weights.pt"
    torch.save(build_model("small-cnn", 10, 32, 32).state_dict(), file)
    case = digits_case().with_recipe(epochs=1, pretrained=str(file))
    log = read_log(case.train(tmp_path / "begun"))
    assert log["pretrained"]["sha256"] == log["initial_weights"]
    assert read_log(digits_case().train(tmp_path / "plain"))["pretrained"] is None


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A cache of the Hugging Face hub, and no network."""
    pytest.importorskip("timm", reason="needs the extra timm")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_a_timm_tag_comes_from_the_hubs_cache(hub):
    import timm
    from safetensors.torch import save_file

    content = timm.create_model("resnet10t", pretrained=False).state_dict()
    folder = hub / "models--timm--resnet10t.c3_in1k"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    save_file(content, folder / "snapshots" / "abc" / "model.safetensors")
    target = build_model("timm:resnet10t", 5, 64, 64)
    told = begin_with(target, "c3_in1k", "timm:resnet10t")
    assert told["identity"] == "c3_in1k (timm/resnet10t.c3_in1k)"
    assert told["initialised"] == ["fc.weight", "fc.bias"]
    assert told["sha256"] == weights_hash(content)
    assert torch.equal(
        target.state_dict()["layer1.0.conv1.weight"], content["layer1.0.conv1.weight"]
    )
    shutil.rmtree(folder)
    with pytest.raises(MissingDependency, match="hf download timm/resnet10t"):
        begin_with(target, "c3_in1k", "timm:resnet10t")


def test_a_timm_model_is_checked_when_the_file_is_read():
    pytest.importorskip("timm", reason="needs the extra timm")
    assert Recipe(model="timm:resnet10t").model == "timm:resnet10t"
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        Recipe(model="timm:resnet-18")
    with pytest.raises(ConfigError, match="no weights 'c3_in2k'; did you mean 'c3_in1k'"):
        identity("c3_in2k", "timm:resnet10t")


def test_a_timm_model_says_which_size_it_does_not_take():
    pytest.importorskip("timm", reason="needs the extra timm")
    with pytest.raises(ConfigError, match="does not accept inputs of 64x64"):
        build_model("timm:vit_tiny_patch16_224", 5, 64, 64)


def published_model(pretrained: str = "IMAGENET1K_V1", **given) -> UserModel:
    return UserModel("mine", "path", model=MODEL, pretrained=pretrained, **given)


def test_a_published_model_predicts_with_the_published_bits_once_it_was_fetched(
    published, tmp_path
):
    file, content = published
    workspace = Workspace(tmp_path / "reports")
    classes = tuple(f"{index:04}" for index in range(1000))
    fetched = published_model().fetched(workspace)
    checkpoint = fetched.checkpoint(classes, (64, 64))
    assert weights_hash(load_model(checkpoint).state_dict()) == weights_hash(content)
    file.unlink()  # a second run needs no library's cache and no network
    assert published_model().fetched(workspace).checkpoint(classes, (64, 64)) == checkpoint


def test_other_source_stores_published_weights_again(published, tmp_path, monkeypatch):
    workspace = Workspace(tmp_path / "reports")
    before = published_model().fetched(workspace).file
    assert published_model().fetched(workspace).file == before
    monkeypatch.setattr("alignkit.models.pretrained.code_version", lambda layers: "other")
    assert published_model().fetched(workspace).file != before


def test_the_key_of_a_published_model_is_that_of_its_weights_before_and_after_the_download(
    published, tmp_path
):
    fetched = published_model().fetched(Workspace(tmp_path / "reports"))
    assert fetched.parts == published_model().parts == published_model("DEFAULT").parts
    keys = [
        published_model(classes=("a", "b")).parts,
        UserModel("mine", "path", model="resnet18", pretrained="IMAGENET1K_V1").parts,
        UserModel("mine", "path", model="resnet50", pretrained="IMAGENET1K_V1").parts,
        UserModel("mine", "path", model="resnet50", pretrained="IMAGENET1K_V2").parts,
    ]
    assert len({content_key(each) for each in [fetched.parts, *keys]}) == 5


def test_outputs_of_published_weights_are_known_before_any_download():
    assert published_outputs("IMAGENET1K_V1", MODEL) == 1000
    pytest.importorskip("timm", reason="timm names these weights")
    assert published_outputs("augreg_in21k", "timm:vit_small_patch16_224") == 21843


def test_imagenets_classes_are_those_that_timm_itself_lists_and_need_no_import_of_it(tmp_path):
    data = pytest.importorskip("timm.data", reason="the order is timm's")
    info = data.ImageNetInfo("imagenet-1k")
    assert list(imagenet_classes()) == [info.index_to_label_name(i) for i in range(1000)]
    program = "import sys; from alignkit.models.pretrained import imagenet_classes as f; f(); "
    program += "sys.exit('timm' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_timm_the_order_of_imagenets_classes_names_what_to_install(monkeypatch):
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(MissingDependency, match=r"pip install 'alignkit\[timm\]'; or give a file"):
        imagenet_classes()
