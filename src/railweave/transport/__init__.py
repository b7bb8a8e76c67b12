"""RDMA as programs and adapters do it, packets as they stand on the wire, and what to choose."""
