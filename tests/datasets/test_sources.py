"""Images at URLs, in tar shards and in Parquet files: equal, whole, and honest about failures."""

import json
import logging
import os
import pickle
from pathlib import Path

import pytest

from alignkit.datasets import url_store
from alignkit.datasets.byte_store import url_of
from alignkit.datasets.folder import Folder
from alignkit.datasets.unlabelled_images import Images
from alignkit.errors import ChangedImage, ConfigError, DataError, UnreadableImage
from tests.datasets.source_case import (
    moto_server,
    served,
    write_folder,
    write_parquet,
    write_tar,
)

IMAGES = {f"{'ab'[i % 2]}/{i:03d}.jpg": b"image %d" % i * (i + 9) for i in range(20)}
LABELS = {name: name[0] for name in IMAGES}


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setattr(url_store, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", os.fspath(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "set", IMAGES)


def shards(folder, **options):
    folder.mkdir()
    whole = [*IMAGES.items()]
    for number in range(3):
        write_tar(folder / f"s-{number:03d}.tar", dict(whole[number::3]), LABELS, **options)
    return folder


def same(root, folder):
    """Check that a root gives the ids, bytes and fingerprint of the folder; also when pickled."""
    expected, found = Images(folder).evaluation(), Images(Path(root)).evaluation()
    assert found.ids == expected.ids
    assert found.fingerprint == expected.fingerprint
    assert Images(Path(root)).fingerprint("eval") == expected.fingerprint
    few = pickle.loads(pickle.dumps(found.take([5, 0]).read))
    assert [few(0), few(1)] == [expected.read(5), expected.read(0)]
    assert [found.read(i) for i in range(len(found))] == [*map(expected.read, range(len(expected)))]


def test_the_same_images_are_the_same_in_every_source(folder, tmp_path):
    import fsspec

    tars = shards(tmp_path / "tars")
    memory = fsspec.filesystem("memory")
    for name, data in IMAGES.items():
        memory.pipe(f"/{tmp_path.name}/{name}", data)
    for root in (
        tars / "s-{000..002}.tar",
        tars / "s-*.tar",
        tars,
        write_parquet(tmp_path / "images.parquet", IMAGES),
        write_parquet(tmp_path / "images.arrow", IMAGES),
        f"memory://{tmp_path.name}",
    ):
        same(root, folder)
        same(root, folder)  # by hashes and indexes of the cache


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
def test_a_server_gives_the_same_images(folder, kind):
    pytest.importorskip("aiohttp" if kind == "http" else "requests")
    with served(folder, kind) as url:
        same(f"{url}/", folder)


def test_archives_are_read_by_ranges_from_a_server(folder, tmp_path):
    pytest.importorskip("requests")
    tars = shards(tmp_path / "tars")
    write_parquet(tars / "images.parquet", IMAGES)
    write_parquet(tars / "images.arrow", IMAGES)
    with served(tars, "webhdfs") as url:
        same(f"{url}/s-{{000..002}}.tar", folder)
        same(f"{url}/images.parquet", folder)
        same(f"{url}/images.arrow", folder)


@pytest.mark.slow
def test_s3_gives_the_same_images_and_no_secret(folder, tmp_path, monkeypatch, caplog):
    s3fs = pytest.importorskip("s3fs", "2024.6")  # of the same age as the extra's fsspec
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    caplog.set_level(logging.DEBUG, "alignkit")
    tars = shards(tmp_path / "tars")
    with moto_server(tmp_path / "server.log") as address:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "AKIDNOSUCHKEY"),
            ("AWS_SECRET_ACCESS_KEY", "sesame-open-sesame"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        import fsspec.config

        # as the variable FSSPEC_S3_ENDPOINT_URL, which fsspec reads when it is imported
        monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": address})
        store = s3fs.S3FileSystem(endpoint_url=address)
        store.mkdir("photos")
        store.put(os.fspath(folder), "photos/set", recursive=True)
        store.put(os.fspath(tars), "photos/tars", recursive=True)
        same("s3://photos/set", folder)
        same("s3://photos/tars/s-{000..002}.tar", folder)
        samples = Images(Path("s3://photos/set")).evaluation()
        store.pipe("photos/set/a/000.jpg", b"other")
        store.rm("photos/set/b/001.jpg")
        with pytest.raises(ChangedImage, match="changed after it was listed"):
            samples.read(samples.ids.index("a/000.jpg"))
        with pytest.raises(ChangedImage, match="not there any more"):
            samples.read(samples.ids.index("b/001.jpg"))
        with pytest.raises(DataError, match="s3://nowhere is not there, or holds nothing; check"):
            Images(Path("s3://nowhere")).evaluation()
    kept = "".join(file.read_text() for file in (tmp_path / "cache").rglob("*.json"))
    assert "photos" in kept
    assert "sesame" not in kept + caplog.text


def reasons(samples):
    found = {}
    for index, name in enumerate(samples.ids):
        try:
            samples.read(index)
        except UnreadableImage as error:
            found[name] = error.reason
    return found


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
def test_a_failure_that_passes_costs_nothing(folder, kind, caplog):
    pytest.importorskip("aiohttp" if kind == "http" else "requests")
    caplog.set_level(logging.INFO, "alignkit")
    with served(folder, kind, "503-once") as url:
        same(f"{url}/", folder)
    assert "was read at try 2" in caplog.text


@pytest.mark.parametrize("fault", ["503", "cut", "slow"])
def test_an_image_that_never_comes_is_one_failed_image(folder, fault, monkeypatch):
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("ALIGNKIT_READ_SECONDS", "0.5" if fault == "slow" else "20")
    monkeypatch.setattr(url_store, "TRIES", 2)
    with served(folder, "http", fault) as url:
        samples = Images(Path(url)).evaluation()
        found = reasons(samples)
    assert len(samples) == 20
    assert [*found] == ["b/003.jpg", "b/013.jpg"]
    expected = {"503": "503", "cut": "", "slow": "no answer within 0.5 seconds"}[fault]
    for reason in found.values():
        assert expected in reason
        assert reason.endswith("tried 2 times")


def test_what_changes_between_listing_and_reading_is_noticed(folder):
    import fsspec

    memory = fsspec.filesystem("memory")
    for name, data in IMAGES.items():
        memory.pipe(f"/changed/{name}", data)
    samples = Images(Path("memory://changed")).evaluation()
    memory.rm("/changed/a/000.jpg")
    memory.pipe("/changed/a/002.jpg", b"other")
    assert reasons(samples) == {
        "a/000.jpg": "changed after it was listed: it is not there any more",
        "a/002.jpg": "changed after it was listed",
    }


def test_labels_are_those_of_folders_cls_json_and_columns(folder, tmp_path):
    expected = Folder(folder).undivided().evaluation()
    flat = {name.replace("/", "-"): data for name, data in IMAGES.items()}
    labels = {name: name[0] for name in flat}
    by_json = write_tar(
        tmp_path / "j.tar", flat,
        extra=[(name[:-3] + "json", json.dumps({"label": name[0]}).encode()) for name in flat],
    )  # fmt: skip
    numbers = {name: "ab".index(name[0]) for name in IMAGES}
    for root in (
        shards(tmp_path / "tars"),
        write_parquet(tmp_path / "n.parquet", IMAGES, numbers, "ab"),
        write_parquet(tmp_path / "n.arrow", IMAGES, numbers, "ab"),
        write_parquet(tmp_path / "t.parquet", IMAGES, LABELS),
    ):
        data = Folder(root)
        found = data.undivided().evaluation()
        assert (found.ids, found.labels, found.classes) == (
            expected.ids, expected.labels, expected.classes,
        )  # fmt: skip
        assert found.fingerprint == expected.fingerprint == data.undivided().fingerprint("eval")
        assert data.training().fingerprint == Folder(folder).training().fingerprint
        assert data.class_names() == ("a", "b")
        assert data.counts() == Folder(folder).counts()
    for root in (by_json, write_tar(tmp_path / "c.tar", flat, labels)):
        found = Folder(root).undivided().evaluation()
        assert [found.classes[each] for each in found.labels] == [name[0] for name in found.ids]
    # a model's outputs are in the order of the ClassLabel
    turned = write_parquet(tmp_path / "o.parquet", IMAGES, numbers, ("zebra", "ant", "none"))
    found = Folder(turned).undivided().evaluation()
    assert found.classes == ("zebra", "ant", "none")
    assert found.labels == (0,) * 10 + (1,) * 10


def test_splits_of_a_url_are_its_folders(tmp_path):
    import fsspec

    whole = {
        f"{split}/{name}": data + split.encode()
        for split in ("train", "eval")
        for name, data in IMAGES.items()
    }
    folder = write_folder(tmp_path / "both", whole)
    memory = fsspec.filesystem("memory")
    for name, data in whole.items():
        memory.pipe(f"/both/{name}", data)
    for one, other in (
        (Folder(folder), Folder(Path("memory://both"))),
        (Folder(folder, limit=6), Folder(Path("memory://both"), limit=6)),
    ):
        assert one.training().ids == other.training().ids
        assert one.fingerprint("eval") == other.fingerprint("eval")
        assert one.fingerprint("train") == other.fingerprint("train")
        assert [*other.notes()] == []


@pytest.mark.parametrize("cut", [0.3, 0.6, "boundary"])
def test_a_tar_that_is_cut_off_is_refused(tmp_path, cut):
    file = write_tar(tmp_path / "s.tar", IMAGES)
    data = file.read_bytes()
    end = 512 * 2 * 6 if cut == "boundary" else int(len(data) * cut)
    file.write_bytes(data[:end])
    with pytest.raises(DataError, match=r"cut off.*copy it again"):
        Images(file).evaluation()


@pytest.mark.parametrize("name", ["/etc/passwd.jpg", "../up.jpg", "a/../../up.jpg"])
def test_a_member_outside_the_archive_is_refused(tmp_path, name):
    file = write_tar(tmp_path / "s.tar", IMAGES, extra=[(name, b"x")])
    with pytest.raises(DataError, match="leaves the archive's folder; nothing was read from it"):
        Images(file).evaluation()


def test_a_link_in_a_tar_is_a_failed_image(tmp_path):
    file = write_tar(tmp_path / "s.tar", IMAGES, links=[("a/zz.jpg", "/etc/passwd")])
    samples = Images(file).evaluation()
    assert len(samples) == 21
    assert reasons(samples) == {
        "a/zz.jpg": "it is a link or a special file in the archive, not an image"
    }


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow"])
def test_a_null_is_a_failed_image(tmp_path, name):
    images = {**IMAGES, "a/000.jpg": None}
    found = Images(write_parquet(tmp_path / name, images)).evaluation()
    assert len(found) == 20
    ((image, reason),) = reasons(found).items()
    assert reason == "the row has no image"
    assert image.startswith(f"{name}:")


def test_an_arrow_file_that_is_cut_off_or_damaged_is_refused(tmp_path):
    import pyarrow as pa

    file = write_parquet(tmp_path / "p.arrow", IMAGES)
    data = file.read_bytes()
    ends = []
    for batch in range(1, 3):  # whole batches, and no end
        write_parquet(tmp_path / "part.arrow", dict([*IMAGES.items()][: 7 * batch]))
        ends.append((tmp_path / "part.arrow").stat().st_size - 8)
    for end in (*ends, 4, len(data) // 3, len(data) - 9, len(data) - 8, len(data) - 3):
        file.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"is cut off|is no stream of Arrow"):
            Images(file).evaluation()
    with pa.ipc.new_file(file, pa.schema([("image", pa.binary())])) as other:
        other.write_table(pa.table({"image": [b"x"]}))
    with pytest.raises(DataError, match=r"is no stream of Arrow.*to_parquet"):
        Images(file).evaluation()
    write_parquet(tmp_path / "part.parquet", IMAGES)
    with pytest.raises(
        DataError, match=r"holds \.arrow and \.parquet files; name those of one kind"
    ):
        Images(tmp_path).evaluation()


@pytest.mark.parametrize("other", ["column", "classes"])
def test_parquet_files_with_other_columns_or_classes_are_refused(tmp_path, other):
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = dict.fromkeys(IMAGES, 0)
    write_parquet(tmp_path / "0.parquet", IMAGES, numbers, ("cat", "dog"))
    if other == "column":
        pq.write_table(pa.table({"img": [b"x"], "label": [0]}), tmp_path / "1.parquet")
    else:
        write_parquet(tmp_path / "1.parquet", IMAGES, numbers, ("cow", "hen"))
    with pytest.raises(DataError, match=r"0.parquet and 1.parquet differ in .*write them alike"):
        Folder(tmp_path).undivided().evaluation()


def test_of_a_saved_data_set_only_the_files_of_its_state_are_read(folder, tmp_path):
    import fsspec

    saved = tmp_path / "saved"
    saved.mkdir()
    state = saved / "state.json"
    data = write_parquet(saved / "data-00000-of-00001.arrow", IMAGES)
    # `datasets` leaves there what map and filter returned
    write_parquet(saved / "cache-0123456789abcdef.arrow", IMAGES)
    state.write_text(json.dumps({"_data_files": [{"filename": data.name}]}))
    same(saved, folder)
    memory, url = fsspec.filesystem("memory"), f"memory://{tmp_path.name}"
    memory.put(os.fspath(saved), f"/{tmp_path.name}", recursive=True)
    same(url, folder)
    memory.pipe(f"/{tmp_path.name}/dataset_dict.json", b"{}")
    with pytest.raises(DataError, match=r"holds splits .*name the folder of one"):
        Images(Path(url)).evaluation()
    data.rename(saved / "moved.arrow")
    with pytest.raises(DataError, match=r"state.json names data-00000-of-00001.arrow, which is no"):
        Images(saved).evaluation()
    state.write_text("{}")
    with pytest.raises(DataError, match=r"state.json names no files .*; save the data set again"):
        Images(saved).evaluation()


@pytest.mark.slow
def test_the_library_s_own_folder_is_read(folder, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    from tests.photos import encoded, photo

    images = {f"{'ab'[n % 2]}/{n}.jpg": encoded(photo(height=40 + n, width=50)) for n in range(8)}
    files = write_folder(tmp_path / "photos", images)
    table = datasets.Dataset.from_dict(
        {
            "image": [os.fspath(files / name) for name in images],
            "label": [name[0] for name in images],
        }
    )
    table = table.cast_column("image", datasets.Image()).class_encode_column("label")
    both = datasets.DatasetDict({"train": table})
    both.save_to_disk(tmp_path / "both", num_shards={"train": 2})
    found = Folder(tmp_path / "both" / "train").undivided().evaluation()
    assert found.classes == ("a", "b")
    assert {found.ids[i]: found.read(i) for i in range(8)} == {
        name[2:]: data for name, data in images.items()
    }
    assert [found.classes[each] for each in found.labels] == [
        "ab"[int(name[0]) % 2] for name in found.ids
    ]
    with pytest.raises(DataError, match="splits of Hugging Face datasets; name the folder of one"):
        Folder(tmp_path / "both").training()


def test_damaged_and_strange_archives_are_refused_with_the_next_step(tmp_path):
    (tmp_path / "x.tar").write_bytes(b"no tar" * 1000)
    (tmp_path / "x.parquet").write_bytes(b"no parquet" * 1000)
    write_tar(tmp_path / "one.tar", IMAGES)
    write_tar(tmp_path / "two.tar", IMAGES)
    for root, message in (
        ("x.tar", "is no tar archive"),
        ("x.parquet", "is no Parquet file"),
        ("x.tar.gz", "is compressed.*unpack it"),
        ("missing.tar", "cannot read"),
        ("no-{3..1}.tar", "lower number first"),
        ("no-*.tar", "no file in"),
        ("nowhere/*.tar", "cannot list .*nowhere: No such file"),
        ("{one,two}.tar", "cannot read"),
    ):
        with pytest.raises((DataError, ConfigError), match=message):
            Images(tmp_path / root).evaluation()
    with pytest.raises(ConfigError, match="is one of 2 places; name it alone"):
        Images((tmp_path / "one.tar", tmp_path / "two.tar")).evaluation()
    (tmp_path / "x.tar").unlink()
    with pytest.raises(DataError, match=r"is in one\.tar and in two.tar; give each image a key"):
        Images(tmp_path / "*.tar").evaluation()


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:sesame@bucket/set",
        "https://user:sesame@host/set",
        "https://host/set?X-Amz-Signature=sesame",
        "abfs://box/set?sig=sesame",
    ],
)
def test_a_url_with_credentials_is_refused_without_repeating_them(url):
    for make in (Images, Folder):
        with pytest.raises(ConfigError) as caught:
            make(Path(url))
        assert "sesame" not in str(caught.value)
        assert "environment" in str(caught.value)


def test_a_file_with_credentials_in_a_url_is_shown_without_them(tmp_path):
    from alignkit.experiment import load_experiment

    file = tmp_path / "gate.yaml"
    file.write_text(
        "name: gate\ndata: {name: images, root: 's3://AKIA:sesame@bucket/set'}\n"
        "preprocess: {a: {preset: opencv-train, size: 32}, b: {preset: pillow-train, size: 32}}\n"
    )
    for overrides in ((), ("data.root=https://host/set?sig=sesame",)):
        with pytest.raises(ConfigError, match="holds a password or a query") as caught:
            load_experiment(file, overrides)
        assert "sesame" not in str(caught.value)


def test_a_record_names_a_url_as_its_user_does():
    from alignkit.datasets import recorded_options

    both = (Path("a/b.jpg"), Path("c.jpg"))
    assert recorded_options(Images(Path("s3://bucket/set/")))["root"] == "s3://bucket/set"
    assert recorded_options(Images(both))["root"] == ["a/b.jpg", "c.jpg"]


def test_a_message_of_a_library_loses_its_secrets(monkeypatch):
    monkeypatch.setenv("MY_SECRET_KEY", "open-sesame")
    error = OSError(
        "503 for url 'https://me:open-sesame@host/a?X-Amz-Signature=abc' with open-sesame"
    )
    told = url_store._told(error)
    assert "sesame" not in told
    assert "abc" not in told
    assert "503 for url" in told


def test_urls_are_those_of_path_and_text():
    assert url_of(Path("s3://bucket/a/")) == url_of("s3://bucket/a") == "s3://bucket/a"
    assert url_of(Path("a/b")) is None
    assert url_of(Path("/a/b")) is None
    assert url_of("C:/images") is None


def test_diff_of_every_source_gives_an_equal_record(tmp_path):
    from alignkit.api.diff_result import diff
    from alignkit.record.document import document_text
    from tests.photos import encoded, photo

    images = {f"a/{n}.jpg": encoded(photo(height=40 + n, width=50), quality=85) for n in range(6)}
    images["a/bad.jpg"] = images["a/0.jpg"][:300]
    folder = write_folder(tmp_path / "set", images)
    (tmp_path / "tars").mkdir()
    for number in range(2):
        write_tar(tmp_path / "tars" / f"s-{number}.tar", dict([*images.items()][number::2]))

    def record(root):
        # source words, and what differs between any two runs
        whole = diff(root, "opencv-train", "pillow-train", size=32).record
        return document_text(
            whole.model_copy(
                update={
                    "started": "",
                    "seconds": 0.0,
                    "command": type(whole.command)(),
                    "data": whole.data.model_copy(update={"source": ""}),
                }
            )
        )

    expected = record(folder)
    assert '"images":7' in expected.replace(" ", "")
    assert record(tmp_path / "tars" / "s-{0..1}.tar") == expected
    assert record(write_parquet(tmp_path / "p.parquet", images)) == expected
    pytest.importorskip("requests")
    with served(folder, "webhdfs") as url:
        assert record(f"{url}/") == expected
    pytest.importorskip("aiohttp")
    with served(folder, "http") as url:
        assert record(url) == expected
