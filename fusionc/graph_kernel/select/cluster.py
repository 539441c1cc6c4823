"""Cluster: find the largest groups of operators such that kernels can contain them, and that each
group can become one operator without making a cycle.

Every operator gets a level. Follow each path that leads to the operator, and count how often it
changes between operators that can be in a cluster and operators that cannot. The level is the
largest of these counts. So a path never returns to a level that it has left, and the connected
operators of one level can become one operator. All groups can do so at once, without a cycle. The
time is linear.
"""

from __future__ import annotations

from collections.abc import Callable

from fusionc.model.build import dependencies
from fusionc.model.graph import Graph, Node


def clusters_of(graph: Graph, is_clusterable: Callable[[Node], bool]) -> list[list[Node]]:
    """The groups of a graph, each in topological order. A group may be a single operator.

    `is_clusterable` tells whether an operator can be in a group.
    """
    nodes = graph.ordered()
    members = {node: None for node in nodes if is_clusterable(node)}
    makers = {node: dependencies(node) for node in nodes}
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node, before in makers.items():
        for maker in before:
            users[maker].append(node)
    levels: dict[Node, int] = {}
    for node in nodes:
        levels[node] = max(
            (_least(levels, members, maker, node) for maker in makers[node]), default=0
        )
    for node in reversed(nodes):
        if node in members:
            _raise(node, levels, members, makers, users)
    return _joined(nodes, levels, members, makers)


def _least(levels: dict[Node, int], members: dict[Node, None], maker: Node, user: Node) -> int:
    """The lowest level that `user`, which reads a result of `maker`, may have because of
    `maker`.
    """
    return levels[maker] + (
        0 if maker in members and user in members else maker in members or user in members
    )


def _raise(
    node: Node,
    levels: dict[Node, int],
    members: dict[Node, None],
    makers: dict[Node, list[Node]],
    users: dict[Node, list[Node]],
) -> None:
    """Raise an operator to the level of its users, unless that would separate it from producers on
    its present level.
    """
    highest = min(
        (levels[user] - (user not in members) for user in users[node]), default=levels[node]
    )
    if highest <= levels[node] or not any(
        user in members and levels[user] == highest for user in users[node]
    ):
        return
    same = [maker for maker in makers[node] if maker in members and levels[maker] == levels[node]]
    if all(len(users[maker]) == 1 for maker in same):  # these producers can move up with it
        levels[node] = highest


def _joined(
    nodes: list[Node],
    levels: dict[Node, int],
    members: dict[Node, None],
    makers: dict[Node, list[Node]],
) -> list[list[Node]]:
    group_of: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while group_of[node] is not node:
            group_of[node] = group_of[group_of[node]]
            node = group_of[node]
        return node

    for node in nodes:
        if node not in members:
            continue
        group_of[node] = node
        for maker in makers[node]:
            if maker in members and levels[maker] == levels[node]:
                group_of[root(node)] = root(maker)
    groups: dict[Node, list[Node]] = {}
    for node in members:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())
