"""What an expression cannot do without, and when it is not worth asking."""

from __future__ import annotations

import pytest

from warehouse.detect.needs import may_be_true, needs


@pytest.mark.parametrize(
    ("expr", "choices"),
    [
        ("gpuminutes_x > 0", [["gpuminutes_x"]]),
        ("gpuminutes_x > 0 unless on (node) node_y and on (node) node_z", [["gpuminutes_x"]]),
        ("(gpuminutes_a and on (x) gpuminutes_b) or on (node) (node_c unless node_d)",
         [["gpuminutes_a", "gpuminutes_b"], ["node_c"]]),
        ("max by (node) (vllm:a or vllm:b) > 3 and on (node) node_z > 1", [["node_z", "vllm:a"], ["node_z", "vllm:b"]]),
        ("sum by (node) (rate(node_x[5m])) / on (node) max by (node) (node_q)", [["node_q", "node_x"]]),
        ('count_over_time(node_x{a="or (node_b"}[5m]) > 0', [["node_x"]]),
        ('count ({__name__=~"DCGM_A|DCGM_B"})', [[]]),
        ('up{job=~"a|b"} == 0', [['up{job=~"a|b"}']]),
    ],
)  # fmt: skip
def test_needs(expr: str, choices: list[list[str]]) -> None:
    assert sorted(sorted(names) for names in needs(expr)) == choices


def test_what_lacks_a_series_is_never_true() -> None:
    expr = 'up{job="node"} == 0 and on (node) gpuminutes_x > 0'
    assert may_be_true(expr, {"gpuminutes_x"}) and not may_be_true(expr, {"node_y"})
