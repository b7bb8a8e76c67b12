import numpy as np
import pytest
from training import H100, MIXTRAL, links_costs, plan

from railweave.errors import InputError
from railweave.predict.step import estimate_step
from railweave.predict.timeline import STREAMS, step_timeline

PLANS = {
    "1f1b": plan(t=4, p=4, d=8, micro_batches=8, zero=1),
    "interleaved": plan(t=2, p=4, d=8, micro_batches=8, interleave=2),
    "mixture": plan(MIXTRAL, t=2, d=8, e=8, micro_batches=2, zero=1),
    "context": plan(c=4, d=2, micro_batches=2),
    "fsdp": plan(d=64, zero=3, sequence=512),
}


@pytest.mark.parametrize("name", PLANS)
def test_spans_tell_the_step(name):
    of = PLANS[name]
    got = estimate_step(of, H100, links_costs(of))
    line = step_timeline(got)
    assert len(line) == len(line.stage) > 0
    assert line.stages == of.degrees.pipeline
    assert (line.end_s > line.start_s).all()
    assert line.start_s.min() >= 0
    assert line.end_s.max() <= got.step_s * (1 + 1e-12)
    length = line.end_s - line.start_s
    for stage in range(line.stages):
        own = line.stage == stage
        on = {name: own & (line.stream == i) for i, name in enumerate(STREAMS)}
        assert length[on["compute"]].sum() == pytest.approx(got.compute_by_stage[stage])
        for kind in ("tensor", "expert", "context"):
            waited = got.idle_by_stage[f"exposed {kind}"][stage]
            assert length[on[kind]].sum() == pytest.approx(waited, abs=1e-12)
        for kind in ("compute", "tensor", "expert"):
            begin, end = line.start_s[on[kind]], line.end_s[on[kind]]
            assert (begin[1:] >= end[:-1] - 1e-9).all()


def test_passes_have_their_chunk_and_micro_batch():
    of = PLANS["interleaved"]
    line = step_timeline(estimate_step(of, H100, links_costs(of)))
    forward = line.name == line.names.index("forward")
    seen = {
        (int(s), int(c), int(m))
        for s, c, m in zip(
            line.stage[forward], line.chunk[forward], line.micro_batch[forward], strict=True
        )
    }
    assert len(seen) == 4 * 2 * 8
    reduce = line.name == line.names.index("reduce gradients")
    assert set(line.micro_batch[reduce]) == {-1}
    assert np.isin(line.stream, range(len(line.streams))).all()


def test_a_closed_form_has_no_timeline():
    of = PLANS["1f1b"]
    with pytest.raises(InputError, match="exact=True"):
        step_timeline(estimate_step(of, H100, links_costs(of), exact=False))
