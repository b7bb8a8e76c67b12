from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from railweave.errors import DesignError
from railweave.formats.quantity import (
    BytesPerSecond,
    FlopsRate,
    Metres,
    RateBps,
    Seconds,
    SizeBytes,
    Watts,
)
from railweave.formats.validation import field_error, nearest, validate
from railweave.formats.yaml_source import parse_yaml


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Star(_Model):
    topology: Literal["star"]
    ports: int = 1


class Clos(_Model):
    topology: Literal["clos"]
    spines: Annotated[int, Field(ge=1)]


class Plane(_Model):
    speed: RateBps
    mode: Literal["infiniband", "ethernet"] = "ethernet"
    shape: Annotated[Star | Clos, Field(discriminator="topology")] | None = None
    ranks: int | Literal["all"] = "all"


class Design(_Model):
    name: str
    planes: dict[str, Plane] = {}
    sizes: list[SizeBytes] = []
    low: int = 0
    high: int = 1

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise field_error("low is above high", allowed=f"at most {self.high}", at=("low",))
        return self


def problems(text):
    with pytest.raises(DesignError) as error:
        validate(Design, parse_yaml(text, "d.yaml"))
    return [str(p).removeprefix("d.yaml:") for p in error.value.problems]


def plane(text):
    return problems("name: x\nplanes:\n  a: {" + text + "}")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            lambda: plane("speed: 400 Gb/s, spede: 1"),
            "3:24: planes.a.spede: there is no field 'spede'"
            " here; allowed: speed, mode, shape, ranks; did you mean 'speed'?",
        ),
        (
            lambda: plane("speed: 1 Gb/s, mode: infinband"),
            "3:22: planes.a.mode: 'infinband' is not a"
            " choice; allowed: infiniband, ethernet; did you mean 'infiniband'?",
        ),
        (
            lambda: plane("speed: 400"),
            "3:7: planes.a.speed: 400 has no unit; write it with one;"
            " allowed: '400 Gb/s', '50 GB/s'",
        ),
        (
            lambda: plane("mode: ethernet"),
            "3:3: planes.a.speed: this field is required and not written",
        ),
        (
            lambda: plane("speed: 1 Gb/s, shape: {topology: cloz}"),
            "3:30: planes.a.shape.topology: 'cloz'"
            " is not a choice; allowed: star, clos; did you mean 'clos'?",
        ),
        (
            lambda: plane("speed: 1 Gb/s, shape: {ports: 1}"),
            "3:22: planes.a.shape.topology: this field is"
            " required and not written; allowed: star, clos",
        ),
        (
            lambda: plane("speed: 1 Gb/s, shape: {topology: clos, spines: 0}"),
            "3:46: planes.a.shape.spines: 0 is out of range; allowed: at least 1",
        ),
        (
            lambda: plane("speed: 1 Gb/s, shape: {topology: clos, spines: 2, prots: 1}"),
            "3:57: planes.a.shape.prots: there is no field 'prots' here; allowed: topology, spines",
        ),
        (
            lambda: plane("speed: 1 Gb/s, ranks: some"),
            "3:22: planes.a.ranks: this value does not fit here; allowed: a whole number or all",
        ),
        (lambda: problems("name: 3"), "1:1: name: expected text, not 3; allowed: text"),
        (lambda: problems("name: x\nlow: 5"), "2:1: low: low is above high; allowed: at most 1"),
        (
            lambda: problems("name: x\nplanes: [1]"),
            "2:1: planes: expected fields, 'name: value' one a line, not a list",
        ),
        (lambda: problems("name: x\nsizes: [1 GiB, 1 m]"), "2:16: sizes[1]: '1 m' is not a size"),
        (
            lambda: problems(""),
            "1:1: the file is empty; allowed: the fields name, planes, sizes, low, high",
        ),
    ],
)
def test_messages(found, expected):
    (text,) = found()
    assert text.startswith(expected)


def test_problems_come_in_the_order_of_the_file():
    assert [p.split(":")[0] for p in problems("nam: x\nlow: a\nhigh: b")] == ["1", "1", "2", "3"]


def test_nearest():
    assert nearest("DGX-H10", ["dgx-h100", "qm9700"]) == "dgx-h100"
    assert nearest("zzz", ["dgx-h100"]) == ""


class Quantities(_Model):
    rate: RateBps
    stream: BytesPerSecond
    size: SizeBytes
    time: Seconds
    length: Metres
    power: Watts
    flops: FlopsRate


GOOD = {
    "rate": "400 Gb/s",
    "stream": "3.35 TB/s",
    "size": "32 MiB",
    "time": "2.5 us",
    "length": "150 cm",
    "power": "10.2 kW",
    "flops": "989 TFLOP/s",
}


def test_quantities_are_read_to_si_and_written_back():
    read = Quantities.model_validate(GOOD)
    assert (read.rate, read.stream, read.size) == (4e11, 3.35e12, 32 * 2**20)
    assert read.time == pytest.approx(2.5e-6)
    assert (read.length, read.power, read.flops) == (1.5, 10_200, 989e12)
    written = read.model_dump(mode="json")
    assert written["rate"] == "400 Gb/s"
    assert written["size"] == "32 MiB"
    assert Quantities.model_validate(written) == read


@pytest.mark.parametrize("field", GOOD)
@pytest.mark.parametrize(
    "value", [1, 2.5, True, None, "4", "x", "3 furlongs", "-1 Gb/s", "1e400 W", []]
)
def test_quantities_need_a_right_unit(field, value):
    with pytest.raises(ValueError, match=field):
        Quantities.model_validate(GOOD | {field: value})


def test_schema_says_text_with_a_unit():
    import re

    schema = Quantities.model_json_schema()["properties"]
    for name, value in GOOD.items():
        assert schema[name]["type"] == "string"
        assert re.search(schema[name]["pattern"], value)
        assert not re.search(schema[name]["pattern"], "12")
