"""Where things stand: servers' racks in rows, and the switches' racks at the ends of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.design.models import Facility
from railweave.fabric._assembly import Ints, RackDistance

__all__ = ["RackPlan", "plan_racks"]

#: switches in one network rack, where power allows
SWITCHES_PER_RACK = 16


@dataclass(frozen=True, eq=False)
class RackPlan:
    """Rack of each switch, and the place of every rack."""

    switch_rack: Ints
    racks: int
    distance: RackDistance


def plan_racks(
    facility: Facility,
    host_racks: int,
    switch_row: Ints,
    switch_fixed: Ints,
    power_w: float,
) -> RackPlan:
    """Give switches their racks.

    Args:
        facility: pitches, row length and rack power.
        host_racks: racks of servers, storage servers and other hosts, numbered from 0.
        switch_row: (W,) row at whose end each switch wants to stand.
        switch_fixed: (W,) rack of a top-of-rack switch, −1 elsewhere.
        power_w: highest power of a switch; decides how many go in a rack.
    """
    per_rack = int(min(SWITCHES_PER_RACK, max(1, facility.rack_power // max(power_w, 1.0))))
    free = np.flatnonzero(switch_fixed < 0)
    order = free[np.argsort(switch_row[free], kind="stable")]
    row = switch_row[order].astype(np.int64)
    slot = (np.arange(len(row)) - np.searchsorted(row, row, side="left")) // per_rack
    _, first, number = np.unique(
        row * (len(row) + 1) + slot, return_index=True, return_inverse=True
    )
    rack = switch_fixed.astype(np.int64).copy()
    rack[order] = host_racks + number
    every = np.arange(host_racks)
    rows = np.concatenate((every // facility.racks_per_row, row[first]))
    columns = np.concatenate((every % facility.racks_per_row, facility.racks_per_row + slot[first]))
    return RackPlan(
        switch_rack=rack,
        racks=len(rows),
        distance=RackDistance(
            row=rows.astype(np.float64),
            column=columns.astype(np.float64),
            rack_pitch_m=facility.rack_pitch,
            row_pitch_m=facility.row_pitch,
            slack_m=facility.cable_slack,
        ),
    )
