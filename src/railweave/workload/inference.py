"""Serving a model as traffic, by stated arithmetic from its shape.

With n tokens a replica (a decode step: one a sequence; a prefill: the prompt), t tensor and e
expert ranks, hidden size h:

* tensor parallel: every layer all-reduces 2·n·h bytes twice (Shoeybi et al., 2019); a mixture
  layer whose experts are spread over ranks once, as its experts' sum travels with the combine;
* expert parallel: every mixture layer dispatches n/t·top_k·h elements a rank to the expert ranks
  and gets as many back (Lepikhin et al., 2020; DeepSeek-AI, 2024), evenly or with one hot rank;
* KV cache: 2·layers·KV heads·head width elements a token, or layers·latent width with latent
  attention (512 + 64 a layer in DeepSeek-V3);
* disaggregated: a prompt's cache goes from the tensor ranks that prefilled it to those that decode
  (Zhong et al., 2024; Patel et al., 2024).
"""

from railweave.workload._inference_plan import (
    ForwardVolume,
    InferencePlan,
    element_bytes,
    expert_shares,
    forward_volume,
    inference_assumptions,
    kv_bytes_per_token,
    kv_rank_bytes_per_token,
    kv_transfer_bytes,
)
from railweave.workload._inference_requests import Lengths, RequestLoad, Requests, draw_requests
from railweave.workload._inference_traffic import (
    KvTransfers,
    append_forward,
    append_kv_transfers,
    forward_traffic,
)

__all__ = [
    "ForwardVolume",
    "InferencePlan",
    "KvTransfers",
    "Lengths",
    "RequestLoad",
    "Requests",
    "append_forward",
    "append_kv_transfers",
    "draw_requests",
    "element_bytes",
    "expert_shares",
    "forward_traffic",
    "forward_volume",
    "inference_assumptions",
    "kv_bytes_per_token",
    "kv_rank_bytes_per_token",
    "kv_transfer_bytes",
]
