"""What encryption adds is counted, and a run says how much and what is left out."""

from __future__ import annotations

import railweave

TEXT = """railweave: 1
name: small
cluster: {{servers: {{model: hgx-h100-8gpu-roce, count: 2}}}}
planes:
  backend: {{transport: rocev2, topology: star, switch: sn5600{more}}}
  frontend: {{transport: tcp, topology: star, switch: sn4700, encryption: tls}}
jobs: [{{name: ring, collective: all-reduce, size: 1 MiB}}]
"""


def said(text: str) -> str:
    record = railweave.parse(text).build().run(what_ifs=False)
    return "".join(a.statement for a in record.assumptions if a.subject == "encryption")


def test_a_run_says_what_encryption_adds():
    one = said(TEXT.format(more=""))
    assert "frontend tls 22 B a record of 16,384 B" in one
    assert "backend" not in one
    both = said(TEXT.format(more=", encryption: macsec"))
    assert "backend macsec 32 B a packet; frontend tls" in both


def test_a_run_without_encryption_says_nothing_of_it():
    assert said(TEXT.format(more="").replace(", encryption: tls", "")) == ""
