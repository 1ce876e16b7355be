"""How fragments of a message become one."""

from __future__ import annotations

from lbgen.engines.envoy.protobuf import arrange, merge


def test_messages_merge_as_protobuf_does() -> None:
    one = {"route": {"cluster": "p"}, "filters": [1], "name": "a"}
    other = {"route": {"timeout": "0s"}, "filters": [2], "name": "b"}
    assert merge([one, other]) == {"route": {"cluster": "p", "timeout": "0s"}, "filters": [1, 2], "name": "b"}
    assert one == {"route": {"cluster": "p"}, "filters": [1], "name": "a"}


def test_fields_that_no_order_names_stay_between() -> None:
    found = arrange({"z": 1, "y": 2, "b": 3, "a": 4}, ("a", "absent"), ("z",))
    assert list(found) == ["a", "y", "b", "z"]
