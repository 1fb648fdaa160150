import pytest

from alignkit.decoders.pillow import PillowDecoder
from alignkit.errors import ConfigError
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_argument import named_paths

ENTRY = PreprocessOption.model_validate({"preset": "pillow-train", "size": 64})


def names(paths):
    return [path.preprocess.name for path in paths]


def test_presets_entries_and_mappings_are_paths():
    reference, mapping, entry = named_paths(
        ["opencv-train", "{preset: opencv-train, decode: pillow}", "mine"],
        size=64,
        entries={"mine": ENTRY},
    )
    assert names((reference, mapping, entry)) == ["opencv-train", "opencv-train-2", "mine"]
    assert reference.preset == mapping.preset == "opencv-train"
    assert mapping.preprocess.decode == PillowDecoder()
    assert {path.preprocess.size for path in (reference, mapping, entry)} == {(64, 64)}


def test_a_preset_is_of_224_px_unless_told():
    for path in named_paths(["opencv-train", "{preset: pillow-train, name: other}"]):
        assert path.preprocess.size == (224, 224)


def test_a_mapping_may_be_named_and_spell_out_every_stage():
    given = "{name: own, decode: opencv, resize: {name: opencv, size: 224}}"
    assert names(named_paths(["opencv-train", given])) == ["opencv-train", "own"]


def test_a_mapping_without_a_name_is_called_by_its_libraries():
    area = "{decode: opencv, resize: {name: opencv, interpolation: area, size: 64}}"
    torch = "{decode: pillow, resize: {name: torch, align_corners: true, size: 64}}"
    assert names(named_paths([area, torch, torch])) == [
        "opencv-area", "pillow-torch", "pillow-torch-2",
    ]  # fmt: skip


def test_without_an_argument_all_entries_are_compared():
    assert names(named_paths([], entries={"a": ENTRY, "b": ENTRY})) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["opencv-train"], "twice or more"),
        (["opencv-train", "opencv-trian"], "did you mean 'opencv-train'"),
        (["opencv-train", "[1, 2]"], "give a preset"),
        (["opencv-train", "7"], "give a preset"),
        (["opencv-train", "{preset: opencv-train"], r"--preprocess 2:1:.*not valid YAML"),
        (["opencv-train", "{preset: opencv-train, decod: pillow}"], r"2:1:24: decod: unknown key"),
        (["opencv-train", "{preset: opencv-train, size: 64}"], "one model takes one size"),
    ],
)
def test_mistakes_are_told_where_they_stand(arguments, message):
    with pytest.raises(ConfigError, match=message):
        named_paths(arguments)


def test_a_misspelt_key_is_the_only_thing_reported():
    with pytest.raises(ConfigError) as told:
        named_paths(["opencv-train", "{presett: opencv-train}"])
    assert "did you mean 'preset'" in str(told.value)
    assert "size" not in str(told.value)


TOML = (
    '[jpg]\nbackend = "S[DecodeTensor,ResizeTensor,TensorrtTensor]"\nresize_h = 64\nresize_w = 64\n'
)
TOML += 'mean = "120,120,120"\n'


def test_files_of_other_stacks_are_paths_named_after_them(tmp_path):
    serving, model = tmp_path / "serving.toml", tmp_path / "model" / "preprocessor_config.json"
    serving.write_text(TOML)
    model.parent.mkdir()
    model.write_text('{"image_processor_type": "ViTImageProcessor", "size": 64}')
    mapping = f"{{torchpipe_toml: {serving}, surrogate: true}}"
    folders = [f"{{huggingface: {model.parent}}}", str(model.parent)]
    paths = named_paths([str(serving), str(model), mapping, *folders])
    assert names(paths) == ["serving", "model", "serving-2", "model-2", "model-3"]
    assert paths[4].preprocess.identity() == paths[1].preprocess.identity()
    assert paths[2].preprocess.surrogate_of == "torchpipe-gpu"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{torchpipe_toml: FILE, preset: opencv-train}", "'preset' gives the stages already"),
        ("{torchpipe_toml: FILE, processor: slow}", "belongs to 'huggingface'"),
        ("{preset: opencv-train, surrogate: true}", "belongs to 'torchpipe_toml'"),
        ("{torchpipe_toml: FILE, size: 64}", "a size here belongs to a preset"),
        ("none.toml", "torchpipe_toml: none.toml: cannot be read"),
        ("none/preprocessor_config.json", "huggingface: .*: no such file"),
        ("./", "huggingface: .*preprocessor_config.json: no such file"),
    ],
)
def test_mistakes_about_imports_are_told(tmp_path, given, message):
    file = tmp_path / "serving.toml"
    file.write_text(TOML)
    with pytest.raises(ConfigError, match=message):
        named_paths(["opencv-train", given.replace("FILE", str(file))])


def test_a_value_that_does_not_fit_its_tag_is_a_user_error():
    with pytest.raises(ConfigError, match="not a value of type timestamp"):
        named_paths(["opencv-train", "{preset: opencv-train, decode: !!timestamp foo}"])
