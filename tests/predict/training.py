"""Plans and clusters that the training tests share."""

from railweave.catalog import default_catalog
from railweave.predict.step import Recompute, TrainingPlan
from railweave.predict.system import CollectiveSystem
from railweave.predict.training_costs import ClusterLinks, costs_of_links
from railweave.workload import Degrees

CATALOG = default_catalog()
H100, A100 = CATALOG.gpu("h100"), CATALOG.gpu("a100-80g")
LLAMA_8B, LLAMA_405B = CATALOG.model("llama3-8b"), CATALOG.model("llama3-405b")
GPT_175B, GPT_530B = CATALOG.model("gpt3-175b"), CATALOG.model("mt-nlg-530b")
MIXTRAL, DEEPSEEK = CATALOG.model("mixtral-8x7b"), CATALOG.model("deepseek-v3")

LINKS = ClusterLinks(domain_gpus=8, scale_up_Bps=360e9, network_Bps=47e9)


def plan(shape=LLAMA_8B, *, t=1, c=1, p=1, d=1, e=1, **options):
    """Give a plan with few words."""
    return TrainingPlan(shape, Degrees(t, d, p, e, c), **{"zero": 0, **options})


def links_costs(of, links=LINKS):
    """Give closed-form costs of a plan."""
    return costs_of_links(of.degrees, links)


def hopper(ranks):
    """Give servers of eight H100 with eight 400 Gb/s NICs."""
    return CollectiveSystem("hopper", ranks // 8, 8, "nvlink", 450e9, "rocev2", 8, 50e9)


def ampere(ranks):
    """Give servers of eight A100 with eight 200 Gb/s NICs."""
    return CollectiveSystem("ampere", ranks // 8, 8, "nvlink", 300e9, "infiniband", 8, 25e9)


#: name → plan, GPU, system, published FLOP/s of a GPU. Assumed: one layer a chunk for Llama 3 (the
#: embedding and the head have chunks of their own), gradients in FP32; for the GPT 280 sequences a
#: replica, three chunks, and no sequence parallelism with full recomputation
PUBLISHED = {
    "llama3-405b on 8,192": (
        plan(LLAMA_405B, t=8, p=16, d=64, micro_batches=32, interleave=8, zero=1, gradient_bytes=4),
        H100,
        hopper(8192),
        430e12,
    ),
    "llama3-405b on 16,384": (
        plan(
            LLAMA_405B, t=8, p=16, d=128, micro_batches=16, interleave=8, zero=1, gradient_bytes=4
        ),
        H100,
        hopper(16384),
        400e12,
    ),
    "gpt 530b, selective": (
        plan(GPT_530B, t=8, p=35, d=8, micro_batches=280, interleave=3, gradient_bytes=4),
        A100,
        ampere(2240),
        0.542 * 312e12,
    ),
    "gpt 530b, full": (
        plan(
            GPT_530B,
            t=8,
            p=35,
            d=8,
            micro_batches=280,
            interleave=3,
            gradient_bytes=4,
            recompute=Recompute.FULL,
            sequence_parallel=False,
        ),
        A100,
        ampere(2240),
        0.421 * 312e12,
    ),
}
