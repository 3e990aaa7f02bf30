"""Fields of a preset in words."""

from __future__ import annotations

from mcvrp.flows.config.fields import described


def test_a_section_a_list_and_a_field_have_their_fields() -> None:
    everything = [field.path for field in described()]
    assert len(set(everything)) == len(everything)
    label = [field.path for field in described("label")]
    assert label == [path for path in everything if path.startswith("label.")]
    assert [field.path for field in described("train.phases.3.lr")] == ["train.phases.N.lr"]


def test_every_field_says_what_it_takes_and_means() -> None:
    assert all(field.takes and field.meaning for field in described())
    (count,) = described("label.count")
    assert (count.takes, count.default) == ("whole number", "required")
    (split,) = described("label.split")
    assert (split.takes, split.default) == ("train, valid, test", "default train")
