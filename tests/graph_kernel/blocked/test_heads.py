"""Heads that stand in front of rows, that count several times, and that know their positions:
between products.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from areas import session
from kernels_run import call_of, check_everywhere
from networks import (
    MICROSOFT,
    Found,
    Network,
    check,
    check_all,
    check_alone,
    heads_in_front,
    kinds_of,
    only_area,
    operators_in,
    repeated,
    rotary,
)
from standalone_programs import Standalone

from fusionc.graph_kernel.blocked.time_saved import saved_by_program

# Rows of the longest input: several blocks of each width and a remainder. More would only take
# longer, because these programs are not optimized.
ROWS = 54
SIZES = (
    {"B": 1, "S": 1},
    {"B": 2, "S": 7},
    {"B": 3, "S": ROWS},
    {"B": 0, "S": 3},
    {"B": 2, "S": 0},
)
HEADS = 4
SIZE = 64


def attend(n: Network, q: str, k: str, v: str, *more: str, heads: int = HEADS) -> str:
    return str(n.op("MultiHeadAttention", q, k, v, *more, domain=MICROSOFT, num_heads=heads))


def tables(n: Network, rows: int | str = "S", columns: int = SIZE // 2) -> tuple[str, str]:
    return n.input(rows, columns), n.input(rows, columns)


def decoder(
    n: Network, x: str, key_heads: int = 2, *, is_known: bool = False, is_masked: bool = False
) -> str:
    """Attention as a decoder has it: positions, and keys and values that count several times."""
    times = HEADS // key_heads
    q = n.product(x, 40, HEADS * SIZE)
    k, v = (
        heads_in_front(n, n.product(x, 40, key_heads * SIZE), key_heads, SIZE) for _ in range(2)
    )
    angles = np.linspace(0, 9, ROWS * SIZE // 2).reshape(ROWS, -1)
    both = (n.const(np.cos(angles)), n.const(np.sin(angles))) if is_known else tables(n)
    q = rotary(n, q, *both, num_heads=HEADS)
    k = rotary(n, k, *both)
    k, v = (repeated(n, one, key_heads, times, SIZE) for one in (k, v))
    return attend(n, q, k, v, *(["", "", n.input("B", 1, "S", "S")] if is_masked else []))


def of_heads(n: Network, x: str) -> str:
    """Keys and values with heads of their own in front."""
    return attend(
        n,
        n.product(x, 40, 256),
        *(heads_in_front(n, n.product(x, 40, 256), HEADS, SIZE) for _ in range(2)),
    )


def that_others_read(n: Network, x: str) -> str:
    """Keys before and behind their positions are read again."""
    k = n.product(x, 40, 256)
    (cosines, sines) = tables(n)
    turned = rotary(n, k, cosines, sines, num_heads=HEADS)
    v = n.op("Add", turned, n.op("Relu", k))
    return attend(n, turned, turned, v)


def values_for_two(n: Network, x: str) -> str:
    """Heads that two operators of attention read."""
    v = heads_in_front(n, n.op("Relu", n.product(x, 40, 256)), HEADS, SIZE)
    one, other = (attend(n, n.product(x, 40, 256), v, v) for _ in range(2))
    return str(n.op("Add", one, other))


def of_one_product(n: Network, x: str) -> str:
    q, k, v = n.op(
        "Split", n.product(x, 40, 512), n.const([256, 128, 128], np.int64), axis=-1, outputs=3
    )
    k, v = (repeated(n, heads_in_front(n, one, 2, SIZE), 2, 2, SIZE) for one in (k, v))
    return attend(n, rotary(n, q, *tables(n)), k, v)


FORMS: dict[str, Callable[[Network, str], str]] = {
    "decoder": decoder,
    "decoder_with_mask": lambda n, x: decoder(n, x, is_masked=True),
    "one_head_of_keys": lambda n, x: decoder(n, x, 1),
    "as_many_heads_of_keys": lambda n, x: decoder(n, x, 4),
    "known_positions": lambda n, x: decoder(n, x, is_known=True),
    "heads_in_front": of_heads,
    "of_one_product": of_one_product,
    "read_again": that_others_read,
    "read_by_two": values_for_two,
    "without_number_of_heads": lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n)),
    "more_cosines_than_rows": lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n, 160)),
    "activation": lambda n, x: n.op("Relu", rotary(n, n.product(x, 40, 256), *tables(n))),
}


def network(form: Callable[[Network, str], str]) -> Network:
    n = Network(seed=8)
    x = n.product(n.input("B", "S", 33), 33, 40)
    made = form(n, x)
    n.outputs = [*n.outputs, n.product(made, 256, 24)]
    return n


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: only_area(network(form).model()) for name, form in FORMS.items()}


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, found: dict[str, Found], programs: Standalone, library: Path) -> None:
    one = found[name]
    n = network(FORMS[name])
    given = [session(call_of(one), registered) for registered in (library, None)]
    has_attention = any(node.op_type == "MultiHeadAttention" for node in n.nodes)
    assert (saved_by_program(one.area) > 0) == has_attention
    # a Reshape behind it takes no empty tensors
    has_repeated = any(node.op_type == "Expand" for node in n.nodes)
    for turn, sizes in enumerate(SIZES, list(FORMS).index(name)):
        if has_repeated and not all(sizes.values()):
            continue
        check_everywhere(one, n.feeds(sizes), programs, given, turn)


def test_nothing_is_moved(found: dict[str, Found]) -> None:
    """Of all that stands between a product and attention, positions alone take a step."""
    one = found["decoder"]
    program = check(one.area, one.tensors(network(decoder).feeds(SIZES[1])))
    assert kinds_of(program) == "PRODUCT PRODUCT PRODUCT PRODUCT ROTARY ROTARY ATTENTION PRODUCT"


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("table", [1, 2])
def test_fewer_positions_than_rows_are_an_error(
    table: int, found: dict[str, Found], library: Path
) -> None:
    one = found["decoder"]
    n = network(decoder)
    feeds = n.feeds({"B": 2, "S": 5})
    name = list(feeds)[table]
    with pytest.raises(Exception, match=r"_blocked_.*: Non-zero status code"):
        session(call_of(one), library).run(None, one.feeds(feeds | {name: feeds[name][:4]}))


def hands_out_heads(n: Network, x: str) -> str:
    """Keys behind their positions are an output, as those for the next token are."""
    k = rotary(n, heads_in_front(n, n.product(x, 40, 256), HEADS, SIZE), *tables(n))
    n.outputs.append(n.op("Reshape", n.op("Neg", k), n.const([0, -1, SIZE], np.int64)))
    return attend(n, n.product(x, 40, 256), k, k)


def repeats_all_heads_in_turn(n: Network, x: str) -> str:
    """Not each of them: head 0, 1, 0, 1."""
    apart = n.op(
        "Unsqueeze", heads_in_front(n, n.product(x, 40, 128), 2, SIZE), n.const([1], np.int64)
    )
    more = n.op("Expand", apart, n.const([1, 2, 1, 1, 1], np.int64))
    k = n.op("Reshape", more, n.const([0, 4, -1, SIZE], np.int64))
    return attend(n, n.product(x, 40, 256), k, k)


def repeats_batches(n: Network, x: str) -> str:
    apart = n.op(
        "Unsqueeze", heads_in_front(n, n.product(x, 40, 128), 2, SIZE), n.const([2], np.int64)
    )
    k = n.op("Expand", apart, n.const([2, 1, 2, 1, 1], np.int64))
    k = n.op("Reshape", k, n.const([0, 4, -1, SIZE], np.int64))
    return attend(n, n.product(x, 40, 256), k, k)


def turns_rows(n: Network, x: str) -> str:
    """Heads of which the rows are taken for channels."""
    made = n.op(
        "Transpose", heads_in_front(n, n.product(x, 40, 256), HEADS, SIZE), perm=[0, 1, 3, 2]
    )
    made = n.op("Transpose", made, perm=[0, 1, 3, 2])
    return attend(n, n.product(x, 40, 256), made, made)


STAYS: dict[str, tuple[str, Callable[[Network, str], str]]] = {  # the operator that is in no area
    "handed_out": ("RotaryEmbedding", hands_out_heads),
    "in_turn": ("Expand", repeats_all_heads_in_turn),
    "of_batches": ("Expand", repeats_batches),
    "turned": ("Transpose", turns_rows),
    "heads_of_another_number": (
        "MultiHeadAttention",
        lambda n, x: attend(
            n, n.product(x, 40, 256), *[heads_in_front(n, n.product(x, 40, 256), 8, 32)] * 2
        ),
    ),
    "interleaved": (
        "RotaryEmbedding",
        lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n), interleaved=1),
    ),
    "of_part_of_a_head": (
        "RotaryEmbedding",
        lambda n, x: rotary(
            n, n.product(x, 40, 256), *tables(n, columns=16), num_heads=4, rotary_embedding_dim=32
        ),
    ),
    "scaled": (
        "RotaryEmbedding",
        lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n), scale=0.5),
    ),
    "from_another_position": (
        "RotaryEmbedding",
        lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n, 160), position=1),
    ),
    "half_of_a_block": (
        "RotaryEmbedding",
        lambda n, x: rotary(n, n.product(x, 40, 256), *tables(n, columns=8), num_heads=16),
    ),
}


def test_an_axis_to_repeat_heads_may_be_an_attribute() -> None:
    n = Network(opset=11, seed=8)
    x = n.product(n.input("B", "S", 33), 33, 40)
    k = n.op("Unsqueeze", heads_in_front(n, n.product(x, 40, 128), 2, SIZE), axes=[-3])
    k = n.op("Expand", k, n.const([1, 1, 2, 1, 1], np.int64))
    k = n.op("Reshape", k, n.const([0, 4, -1, SIZE], np.int64))
    n.outputs = [n.product(attend(n, n.product(x, 40, 256), k, k), 256, 24)]
    assert kinds_of(check_alone(n, *n.outputs, sizes={"B": 2, "S": 7})).endswith(
        "PRODUCT ATTENTION PRODUCT"
    )


def test_rows_and_columns_are_no_groups_of_channels() -> None:
    """Of images whose channels are the last axis, though there are as many rows as channels."""
    n = Network(seed=8)
    x = n.op("Transpose", n.conv(n.input("B", 32, 32, 32), 32, 32), perm=[0, 2, 3, 1])
    x = n.op(
        "Transpose", n.op("Reshape", x, n.const([0, 4, 8, 32, 32], np.int64)), perm=[0, 2, 1, 3, 4]
    )
    n.outputs = [n.conv(n.op("Reshape", x, n.const([0, 32, 32, 32], np.int64)), 32, 16)]
    check_all(n, {"B": 2})
    assert not any("Reshape" in operators for operators in operators_in(n))


def test_attention_behind_images_is_an_area_of_its_own() -> None:
    """Of tokens that are the pixels of images."""
    n = Network(seed=8)
    image = n.op("Transpose", n.conv(n.input("B", 32, 8, 8), 32, 40), perm=[0, 2, 3, 1])
    x = n.product(n.op("Reshape", image, n.const([0, 64, 40], np.int64)), 40, 40)
    k, v = (heads_in_front(n, n.product(x, 40, 256), HEADS, SIZE) for _ in range(2))
    made = n.product(attend(n, n.product(x, 40, 256), k, v), 256, 24)
    n.outputs = [n.op("Reshape", made, n.const([0, 8, 8, 24], np.int64))]
    check_all(n, {"B": 2})
    assert any(
        "MultiHeadAttention" in operators and "MatMul" in operators for operators in operators_in(n)
    )


def test_what_heads_are_for_may_be_a_product() -> None:
    """Of each head with a matrix: then the heads come from outside."""
    n = Network(seed=8)
    x = n.product(n.input("B", "S", 33), 33, 256)
    heads = n.op("Relu", n.product(n.op("Reshape", x, n.const([0, 0, 4, 64], np.int64)), 64, 48))
    n.outputs = [n.op("Reshape", heads, n.const([0, 0, -1], np.int64))]
    assert operators_in(n) == [["MatMul", "Add"], ["MatMul", "Add", "Relu"]]


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_with_onnxruntime(name: str) -> None:
    operator, form = STAYS[name]
    n = network(form)
    assert operator in {node.op_type for node in n.nodes}
    assert not any(operator in operators for operators in operators_in(n))
