"""Run traffic symbolically: what each node knows once every message has arrived.

A message carries all that its sender holds and all that reached the sender before, judged only by
the dependencies. A missing dependency therefore shows as a missing contribution.
"""

import numpy as np

from railweave.workload import DELIVERED, Traffic


def knowledge(traffic: Traffic, n_nodes: int) -> list[set[int]]:
    """Return whose data each node holds in the end; nodes are 0…n_nodes−1."""
    plain = traffic.expand()
    plain.validate(n_nodes)
    assert bool((plain.task_rounds == 1).all())
    order = topological(plain)
    own = [1 << node for node in range(n_nodes)]
    started: dict[int, list[int]] = {}  # what the senders of a task held when it started
    after: dict[int, list[int]] = {}
    final = list(own)
    for task in order:
        held = list(own)
        for entry in range(int(plain.dep_ptr[task]), int(plain.dep_ptr[task + 1])):
            before = int(plain.dep_task[entry])
            if int(plain.dep_kind[entry]) == DELIVERED:
                held = [a | b for a, b in zip(held, after[before], strict=True)]
                continue
            for stream in range(*plain.task_stream[task : task + 2]):
                node = int(plain.src[stream])  # only the sender's own past is sure then
                held[node] |= started[before][node]
        started[task] = held
        result = list(held)
        for stream in range(*plain.task_stream[task : task + 2]):
            result[int(plain.dst[stream])] |= held[int(plain.src[stream])]
        after[task] = result
        final = [a | b for a, b in zip(final, result, strict=True)]
    return [{bit for bit in range(n_nodes) if mask >> bit & 1} for mask in final]


def topological(plain: Traffic) -> list[int]:
    """Return the tasks in an order in which every dependency comes first."""
    waiting = np.diff(plain.dep_ptr).tolist()
    followers: list[list[int]] = [[] for _ in range(plain.n_tasks)]
    for task in range(plain.n_tasks):
        for entry in range(int(plain.dep_ptr[task]), int(plain.dep_ptr[task + 1])):
            followers[int(plain.dep_task[entry])].append(task)
    ready = [task for task, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        task = ready.pop()
        order.append(task)
        for other in followers[task]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    assert len(order) == plain.n_tasks
    return order
