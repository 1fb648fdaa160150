"""Graphs that round: against NumPy, ml_dtypes and integer arithmetic, and kernels by hand."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, load_from_string, numpy_helper

from alignkit.backends.onnx_graph import half_precision
from alignkit.backends.rounded_graph import (
    ROUNDING,
    bfloat16_graph,
    named_nodes,
    rounded_at_kernels,
    rounded_operands,
    to_tf32,
)
from alignkit.errors import BackendError

LOWER = (0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
"""Lower halves of a float32: ties of every narrower type, and their neighbours."""
NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def every_upper_half():
    bits = [(np.arange(2**16, dtype=np.uint32) << 16) | np.uint32(lower) for lower in LOWER]
    return np.concatenate(bits).view(np.float32)


def model_of(nodes, weights=(), shape=(None,), output=(None,)):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, output)],
        [
            numpy_helper.from_array(np.asarray(v, np.float32), name)
            for name, v in dict(weights).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(kind, inputs, output, **options):
    return helper.make_node(kind, inputs.split(), [output], f"the {output}", **options)


def run(graph, images):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers)
    return session.run(None, {"images": np.asarray(images, np.float32)})[0]


def rounded(graph, precision, kernels, tmp_path):
    (tmp_path / "graph.onnx").write_bytes(graph.SerializeToString())
    half = named_nodes(load_from_string(half_precision(tmp_path / "graph.onnx")))
    typed = bfloat16_graph(half, graph) if precision == "bf16" else half
    return rounded_at_kernels(typed, half, precision, kernels)


def same_bits(found, expected):
    both_nan = np.isnan(found) & np.isnan(expected)
    return bool(((found.view(np.uint32) == expected.view(np.uint32)) | both_nan).all())


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_rounding_is_that_of_the_type_in_every_bit(precision, tmp_path):
    values = every_upper_half()
    graph, _ = rounded(model_of([node("Relu", "images", "logits")]), precision, None, tmp_path)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(NUMPY[precision]).astype(np.float32)
    # Relu keeps a NaN
    expected = np.where(narrow > 0, narrow, np.where(np.isnan(narrow), narrow, np.float32(0)))
    found = run(graph, values)
    assert same_bits(np.abs(found), np.abs(expected))  # the sign of a zero is Relu's choice
    assert np.isinf(found).any()  # overflow is not cut to the greatest number
    least = {"fp16": 2.0**-24, "bf16": 2.0**-133}[precision]
    assert found[found > 0].min() == least  # and subnormals are kept


def test_tf32_is_the_nearest_number_of_11_bits_and_ties_move_away_from_zero():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, 4000, dtype=np.uint32)
    values[::4] = values[::4] & 0xFFFFE000 | 0x1000  # ties
    values = values.view(np.float32)
    values = values[
        np.isfinite(values) & (np.abs(values) >= 2.0**-126) & (np.abs(values) < 2.0**127)
    ]
    for value, found in zip(values.tolist(), to_tf32(values).tolist(), strict=True):
        exact = abs(Fraction(value))
        step = Fraction(2) ** (int(np.frexp(value)[1]) - 11)
        expected = (exact / step + Fraction(1, 2)).__floor__() * step
        assert abs(Fraction(found)) == expected


def test_a_graph_rounds_to_tf32_as_integer_arithmetic_does():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 400_000, dtype=np.uint32)
    values = np.concatenate([every_upper_half().view(np.uint32), bits, bits & 0xFFFFE000 | 0x1000])
    values = values.view(np.float32)
    values = values[np.isfinite(values) & (np.abs(values) >= 2.0**-126)]
    weights = {"one": [[1.0]]}
    graph = model_of([node("MatMul", "images one", "logits")], weights, (None, 1), (None, 1))
    found = run(rounded_operands(graph)[0], values[:, None])[:, 0]
    added = values.view(np.uint32) + np.uint32(0x1000)
    assert same_bits(found, (added & np.uint32(0xFFFFE000)).view(np.float32))


def test_tf32_rounds_weights_and_inputs_of_products_and_nothing_else():
    value, weight, bias = 1 + 2.0**-11, 3 + 2.0**-10, 2.0**-12
    nodes = [node("Gemm", "images weight bias", "product"), node("Add", "product bias", "logits")]
    weights = {"weight": [[weight]], "bias": [bias]}
    graph, facts = rounded_operands(model_of(nodes, weights, (None, 1), (None, 1)))
    # 1 + 2^-11 is a tie and moves away; 3 + 2^-10 too
    assert run(graph, [[value]]) == np.float32((1 + 2.0**-10) * (3 + 2.0**-9) + bias) + bias
    assert facts == {"tf32 operands": "2 tensors of 1 products"}


def fused():
    """Conv with bias, Relu, Add: (n, 1, 1, 2) images, weights that float16 has exactly."""
    nodes = [
        node("Conv", "images weight bias", "convolved"),
        node("Relu", "convolved", "positive"),
        node("Add", "positive more", "added"),
        node("Mul", "added factor", "logits"),
    ]
    weights = {"weight": [[[[1.5]]]], "bias": [0.1], "more": [0.0313], "factor": [3.0]}
    return model_of(nodes, weights, (None, 1, 1, 2), (None, 1, 1, 2))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_a_kernel_fuses_is_rounded_once(precision, tmp_path):
    def narrow(value):
        return np.asarray(value, np.float32).astype(NUMPY[precision]).astype(np.float32)

    images = np.random.default_rng(2).standard_normal((500, 1, 1, 2)).astype(np.float32)
    image, bias, more = narrow(images), narrow(0.1), narrow(0.0313)
    kernels = [["the convolved"], ["the convolved", "the positive", "the added"], ["the logits"]]
    once, facts = rounded(fused(), precision, kernels, tmp_path)
    summed = np.maximum(image * np.float32(1.5) + bias, 0) + more
    expected = narrow(narrow(summed) * np.float32(3))
    assert np.array_equal(run(once, images), expected)
    assert facts["roundings"].endswith("kernels")

    each, facts = rounded(fused(), precision, None, tmp_path)
    convolved = narrow(image * np.float32(1.5) + bias)
    added = narrow(narrow(np.maximum(convolved, 0)) + more)
    assert np.array_equal(run(each, images), narrow(added * np.float32(3)))
    assert not np.array_equal(run(each, images), expected)
    assert facts == {"roundings": "5, behind every node"}


def test_a_node_that_no_kernel_lists_is_a_kernel_and_is_named(tmp_path):
    listed = [["the convolved", "the positive"], ["the logits"]]
    graph, facts = rounded(fused(), "fp16", listed, tmp_path)
    alone = [["the convolved", "the positive"], ["the added"], ["the logits"]]
    images = np.random.default_rng(2).standard_normal((500, 1, 1, 2))
    assert np.array_equal(
        run(graph, images), run(rounded(fused(), "fp16", alone, tmp_path)[0], images)
    )
    assert "Add" in facts["nodes of no kernel"]


def test_bfloat16_weights_are_rounded_from_float32_and_not_from_float16(tmp_path):
    weight = np.float32(1 + 2.0**-8 + 2.0**-13)  # above a tie of bfloat16, on it in float16
    graph = model_of([node("Mul", "images weight", "logits")], {"weight": weight})
    assert run(rounded(graph, "bf16", None, tmp_path)[0], [1.0]) == np.float32(1 + 2.0**-7)


def test_nodes_without_a_name_of_their_own_get_one():
    graph = fused()
    for each in graph.graph.node:
        each.name = "same"
    names = [each.name for each in named_nodes(graph).graph.node]
    assert len(set(names)) == 4


def test_products_inside_other_operators_are_refused():
    graph = model_of([node("Einsum", "images images", "logits", equation="i,i->i")])
    with pytest.raises(BackendError, match="tf32 cannot be simulated inside Einsum"):
        rounded_operands(graph)


def test_a_node_named_as_a_kernels_number_is_no_part_of_that_kernel(tmp_path):
    nodes = [
        helper.make_node("Relu", ["images"], ["first"], "a"),
        helper.make_node("Neg", ["first"], ["second"], "b"),
        helper.make_node("Neg", ["second"], ["logits"], "1"),
    ]
    graph, _ = rounded(model_of(nodes), "fp16", [["a"], ["b"]], tmp_path)
    places = {each.input[0] for each in graph.graph.node if each.name.startswith(ROUNDING)}
    assert "second exact" in places


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_cast_to_an_integer_stays_whatever_its_other_attributes(precision):
    def typed(width):
        nodes = [
            helper.make_node("Cast", ["images"], ["narrow"], "down", saturate=1, to=width),
            helper.make_node(
                "Cast", ["narrow"], ["whole"], "cut", saturate=1, to=TensorProto.INT32
            ),
            helper.make_node("Cast", ["whole"], ["logits"], "up", saturate=1, to=TensorProto.FLOAT),
        ]
        graph = model_of(nodes)
        graph.opset_import[0].version, graph.ir_version = 19, 9
        return graph

    half = typed(TensorProto.FLOAT16)
    given = bfloat16_graph(half, half) if precision == "bf16" else half
    widths = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
    assert given.graph.node == typed(widths[precision]).graph.node
    graph, _ = rounded_at_kernels(given, half, precision, None)
    # 2^-10 is lost where 256 is rounded to a narrow type, 0.7 where it is cut to an integer
    assert run(graph, [1.7, 256 - 2.0**-10]).tolist() == [1, 256]


def sums(*before, uses="images amounts", kind="Pad"):
    """A graph whose padding is computed in floats, and cast twice, as exporters of timm write it."""
    return [
        *before,
        node("Div", "extent two", "halved"),
        node("Ceil", "halved", "up"),
        node("Concat", "nothing up", "together", axis=0),
        helper.make_node("Cast", ["together"], ["first cast"], "one", to=TensorProto.INT64),
        helper.make_node("Cast", ["first cast"], ["amounts"], "two", to=TensorProto.INT64),
        node(kind, uses, "logits"),
    ]


HELD = {"two": np.float32(2), "nothing": np.zeros(1, np.float32)}
OF_SHAPES = {
    # name: nodes, weights; how many values are put behind the images
    "constants": (sums(), {"extent": np.float32([3])}, 2),
    "an extent that bfloat16 has not": (sums(), {"extent": np.float32([599])}, 300),
    "an extent that float16 has not": (sums(), {"extent": np.float32([4099])}, 2050),
    "the images' own side": (
        sums(
            node("Shape", "images", "side"),
            helper.make_node("Cast", ["side"], ["extent"], "wide", to=TensorProto.FLOAT),
        ), {}, 2,
    ),
    "a side and a constant": (
        sums(
            node("Shape", "images", "side"),
            helper.make_node("Cast", ["side"], ["wide"], "wide", to=TensorProto.FLOAT),
            node("Add", "wide more", "extent"),
        ), {"more": np.float32([2])}, 3,
    ),
    "a product of sides": (
        sums(
            node("Shape", "images", "side"),
            helper.make_node("Cast", ["side"], ["wide"], "wide", to=TensorProto.FLOAT),
            node("Mul", "wide wide", "extent"),
        ), {}, 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("case", OF_SHAPES)
def test_the_arithmetic_of_shapes_is_exact_and_rounds_nowhere(case, precision, tmp_path):
    nodes, weights, behind = OF_SHAPES[case]
    graph = model_of(nodes, {**HELD, **weights})
    (tmp_path / "graph.onnx").write_bytes(graph.SerializeToString())
    half = named_nodes(load_from_string(half_precision(tmp_path / "graph.onnx")))
    typed = bfloat16_graph(half, graph) if precision == "bf16" else half
    made, _ = rounded_at_kernels(typed, half, precision, None, graph)
    images = np.float32([1, 2, -1.5, 0.25])
    # the images and the output round, and are exact in every type
    assert run(made, images).tolist() == [*images.tolist(), *[0] * behind]
    named = {each.input[0] for each in made.graph.node if each.name.startswith(ROUNDING)}
    assert not {each for each in named if each.startswith(("halved", "up", "together", "extent"))}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_is_computed_of_weights_alone_and_used_in_full_still_rounds(precision, tmp_path):
    held = {"weight": np.float32([1 + 2.0**-5]), "scale": np.float32([1 + 2.0**-6])}
    nodes = [node("Mul", "weight scale", "scaled"), node("Mul", "images scaled", "logits")]
    exact = NUMPY[precision]((1 + 2.0**-5) * (1 + 2.0**-6))
    found = run(rounded(model_of(nodes, held), precision, None, tmp_path)[0], [1.0])
    assert found == np.float32(exact) != np.float32((1 + 2.0**-5) * (1 + 2.0**-6))
