"""What encryption costs is not modelled, and a run says so."""

from __future__ import annotations

import railweave

TEXT = """railweave: 1
name: small
cluster: {{servers: {{model: hgx-h100-8gpu-roce, count: 2}}}}
planes: {{backend: {{transport: rocev2, topology: star, switch: sn5600{more}}}}}
jobs: [{{name: ring, collective: all-reduce, size: 1 MiB}}]
"""


def subjects(more: str) -> list[str]:
    record = railweave.parse(TEXT.format(more=more)).build().run(what_ifs=False)
    return [item.subject for item in record.assumptions]


def test_a_run_says_that_encryption_is_not_counted():
    assert "encryption" not in subjects("")
    assert "encryption" in subjects(", encryption: macsec")
