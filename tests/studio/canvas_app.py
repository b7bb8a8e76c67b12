"""Pages with one canvas each, for the tests in a browser: ``python canvas_app.py PORT``."""

from __future__ import annotations

import sys
from pathlib import Path

from nicegui import ui

import railweave
from railweave.report.layout import ring_layout
from railweave.studio.canvas import Canvas
from railweave.studio.fabric_scene import fabric_scene, fail_name, whole_scene
from railweave.studio.scene import (
    Flight,
    Level,
    Phase,
    Scene,
    SceneGroup,
    SceneLink,
    SceneNode,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
STUDIO_CSS = Path(railweave.__file__).parent / "studio" / "static" / "studio.css"


def ring_scene() -> Scene:
    """Eight GPUs in a ring, each sending a chunk to the next, step by step."""
    n = 8
    nodes = tuple(
        SceneNode(f"gpu{i}", x, y, "gpu", f"GPU {i}", f"GPU {i} of server {i // 4}", "backend")
        for i, (x, y) in enumerate(ring_layout(n))
    )
    links = tuple(
        SceneLink(f"hop{i}", f"gpu{i}", f"gpu{(i + 1) % n}", "backend", style="arrow")
        for i in range(n)
    )
    flights = tuple(
        Flight(1e-4 * step, 1e-4 * (step + 0.9), f"gpu{i}", f"gpu{(i + 1) % n}", "chunk", str(i))
        for step in range(7)
        for i in range(n)
    )
    steps = tuple(
        (1e-4 * step, f"Round {step + 1} of 7: every GPU sends 32 MB") for step in range(7)
    )
    return Scene(
        nodes,
        links,
        flights=flights,
        steps=steps,
        title="Ring all-gather",
        aspect=1.0,
        description="Eight GPUs in a ring.",
    )


def queue_scene() -> Scene:
    """Senders, a switch's egress queue with thresholds, a receiver; PFC and CNP drawn apart."""
    nodes = (
        *(
            SceneNode(f"sender-{i}", 0.0, i / 3, "sender", f"sender {i + 1}", "120 Gb/s", "backend")
            for i in range(4)
        ),
        SceneNode("switch", 0.34, 0.5, "leaf", "leaf-1", "", "backend"),
        SceneNode("queue", 0.66, 0.5, "queue", "egress queue", "of leaf-1, port 5", "backend"),
        SceneNode("receiver", 1.0, 0.5, "receiver", "receiver", "100 Gb/s", "backend", state="hot"),
    )
    links = (
        *(
            SceneLink(f"up-{i}", f"sender-{i}", "switch", "backend", style="arrow")
            for i in range(4)
        ),
        SceneLink("in", "switch", "queue", "backend", style="arrow", label="480 Gb/s", state="hot"),
        SceneLink("out", "queue", "receiver", "backend", style="arrow", label="100 Gb/s"),
        SceneLink("pfc", "queue", "switch", style="pfc"),
        SceneLink("cnp", "receiver", "sender-0", style="cnp", label="CNP"),
    )
    flights = tuple(
        Flight(t * 1e-6, (t + 6) * 1e-6, f"sender-{i}", "switch", "data", "", 4096)
        for i in range(4)
        for t in range(0, 60, 5)
    ) + tuple(
        Flight(t * 1e-6, (t + 20) * 1e-6, "receiver", f"sender-{t % 4}", "cnp") for t in (20, 33)
    )
    level = Level(
        "queue",
        (0.0, 3e-5, 6e-5),
        (0.0, 13.2e6, 9e6),
        ((6.4e6, "ECN 40 %"), (12.8e6, "PFC 80 %")),
        16e6,
        "B",
    )
    phases = (Phase(2.5e-5, 4e-5, "up-1", "paused"), Phase(2.5e-5, 4e-5, "sender-1", "paused"))
    return Scene(
        nodes,
        links,
        flights=flights,
        levels=(level,),
        phases=phases,
        title="One congested port",
        description="Four senders share one port.",
    )


def states_scene() -> Scene:
    """Every kind and every state once."""
    kinds = ("gpu", "server", "nic", "leaf", "spine", "core", "switch", "host", "users", "storage",
             "management", "queue", "sender", "receiver")  # fmt: skip
    roles = ("backend", "frontend", "storage", "management", "congestion", "fault", "plane-a")
    states = ("", "down", "hot", "marked", "paused", "slow")
    styles = ("", "curve", "arrow", "arc", "dashed", "pfc", "cnp")
    nodes = [SceneNode(k, i / 13, 0.0, k, k, k, roles[i % 7], "kinds") for i, k in enumerate(kinds)]
    links = []
    for i, state in enumerate(states):
        nodes.append(
            SceneNode(f"s{i}", i / 5, 0.45, "leaf", state or "fine", "", "backend", state=state)
        )
        nodes.append(
            SceneNode(f"t{i}", i / 5, 0.8, "server", f"node00{i}", "", "backend", count=1 + i * 8)
        )
        links.append(SceneLink(f"l{i}", f"s{i}", f"t{i}", "backend", state=state, load=i / 5))
    for i, style in enumerate(styles):
        nodes.append(SceneNode(f"u{i}", i / 7, 1.1, "gpu", "", "", "backend"))
        nodes.append(SceneNode(f"v{i}", i / 7 + 0.1, 1.1, "gpu", "", "", "backend"))
        links.append(SceneLink(f"y{i}", f"u{i}", f"v{i}", style=style))
    return Scene(
        tuple(nodes), tuple(links), (SceneGroup("kinds", "kinds", True, 14),), title="States"
    )


def then(canvas: Canvas) -> None:
    """Show another scene and at once go to a time of it."""
    canvas.show(queue_scene())
    canvas.seek(4e-5)
    canvas.select("queue")


@ui.page("/{name}")
def page(name: str, dark: bool = False, height: int = 440, autoplay: bool = False) -> None:
    ui.dark_mode(dark)
    ui.add_head_html(f"<style>{STUDIO_CSS.read_text()}</style>")
    said = ui.label("").props("id=said")

    def say(text: object) -> None:
        said.set_text(str(text))

    if name == "ring":
        canvas = Canvas(
            ring_scene(),
            lambda i: say(f"select {i}"),
            on_activate=lambda i: say(f"activate {i}"),
            on_time=lambda t: say(f"time {t:.3g}"),
            activate_hint="slow it down",
            autoplay=autoplay,
            height_px=height,
        )
        ui.button("play", on_click=canvas.play)
        ui.button("pause", on_click=canvas.pause)
        ui.button("picture", on_click=lambda: canvas.export_png("ring.png"))
        ui.button("faster", on_click=lambda: canvas.speed(4))
        ui.button("other", on_click=lambda: canvas.show(queue_scene()))
        ui.button("then", on_click=lambda: then(canvas))
        ui.button("choose", on_click=lambda: canvas.select("gpu3"))
        ui.button("seek", on_click=lambda: canvas.seek(3e-4))
    elif name in ("queue", "states"):
        scene = queue_scene() if name == "queue" else states_scene()
        Canvas(scene, lambda i: say(f"select {i}"), height_px=height)
    elif name == "empty":
        canvas = Canvas(Scene())
        ui.button("fill", on_click=lambda: canvas.show(ring_scene()))
    elif name == "large":
        built = railweave.load(EXAMPLES / "meta-llama3-24k.yaml").build()
        Canvas(whole_scene(built.fabric), lambda i: say(f"select {i}"), height_px=height)
    else:
        Fabric(name, height, say)


class Fabric:
    """A fabric whose groups open and whose parts can be taken out."""

    def __init__(self, name: str, height: int, say) -> None:
        self.built = railweave.load(EXAMPLES / f"{name}.yaml").build()
        self.open: frozenset[str] = frozenset()
        self.out: frozenset[str] = frozenset()
        self.say = say
        self.canvas = Canvas(
            self.scene(),
            lambda i: say(f"select {i}"),
            self.toggle,
            self.kill,
            height_px=height,
            activate_hint="take it out, put it back",
        )

    def scene(self) -> Scene:
        return fabric_scene(self.built.fail(sorted(self.out)).fabric, expanded=self.open)

    def toggle(self, group: str) -> None:
        self.open ^= {group}
        self.say(f"toggle {group}")
        self.canvas.show(self.scene())

    def kill(self, item: str) -> None:
        name = fail_name(item)
        self.say(f"activate {name}")
        if name:
            self.out ^= {name}
            self.canvas.show(self.scene())


ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False, title="canvas")
