"""Small sets of identities, written by hand in each form that is read."""

import base64
import pickle

from tests.datasets.annotated_case import jpeg

PEOPLE = {"ann": 3, "bob": 2, "cy": 4, "di": 2}
"""Identity → its images."""


def picture(person, number):
    """Return an encoded image that no other one equals; its last byte is a line feed."""
    return (
        jpeg((24, 20 + number), (len(person) * 40, number * 30, 90))
        + f"{person}{number}\n".encode()
    )


def pictures(people=PEOPLE):
    return {
        f"{person}/{person}_{number:04d}.jpg": picture(person, number)
        for person, count in people.items()
        for number in range(1, count + 1)
    }


def folder(root, people=PEOPLE):
    for name, data in pictures(people).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def listed(root, people=PEOPLE):
    folder(root / "images", people)
    labels = {person: at for at, person in enumerate(people)}
    lines = [f"images/{name} {labels[name.split('/')[0]]}" for name in pictures(people)]
    (root / "label.txt").write_text("\n".join(lines) + "\n")
    return root


def shards(root, people=PEOPLE, count=2, order=("image", "label")):
    root.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, data in pictures(people).items():
        both = {"image": base64.b64encode(data).decode(), "label": name.split("/")[0]}
        lines.append("\t".join(both[each] for each in order))
    for at in range(count):
        (root / f"dataset.part{at}").write_text("\n".join(lines[at::count]) + "\n")
    (root / "file_list.txt").write_text("".join(f"dataset.part{at}\n" for at in range(count)))
    return root


def pairs(people=PEOPLE):
    """List pairs, different ones after same ones: names and whether they are the same."""
    names = list(pictures(people))
    same = [
        (a, b, True)
        for at, a in enumerate(names)
        for b in names[at + 1 :]
        if a.split("/")[0] == b.split("/")[0]
    ]
    other = [(a, names[-1], False) for a in names if a.split("/")[0] != names[-1].split("/")[0]]
    return [*same, *other]


def verification(file, dump=pickle.dumps):
    data = pictures()
    images = [data[name] for a, b, _ in pairs() for name in (a, b)]
    file.write_bytes(dump((images, [same for *_, same in pairs()])))
    return file
