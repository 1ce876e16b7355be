"""Names of features: those that lbgen itself uses are known."""

from __future__ import annotations

import pytest

from lbgen.engines.api import NATIVE, Objection, VerdictTable, emulated, refused
from lbgen.engines.costs import CHEAPER
from lbgen.exporters import gateway_verdicts, parts
from lbgen.plan.features import ALL_FEATURES, check_names

MISSPELT = "route.retrys"


def test_no_name_is_there_twice() -> None:
    assert len(set(ALL_FEATURES)) == len(ALL_FEATURES)


def test_a_misspelt_name_fails_where_it_is_used() -> None:
    with pytest.raises(ValueError, match=r"no feature 'route.retrys'"):
        Objection(NATIVE, "routes[0].retries", MISSPELT)
    with pytest.raises(ValueError, match=r"no feature 'route.retrys'"):
        VerdictTable({})[MISSPELT]
    for name in (MISSPELT, "route.retries.", "rout"):
        with pytest.raises(ValueError, match=f"like '{name}'"):
            VerdictTable({name: NATIVE})


@pytest.mark.parametrize(
    "names",
    [gateway_verdicts.SAID | gateway_verdicts.MATCHES | set(gateway_verdicts._WHY), set(parts._PER_REPLICA)],
    ids=["gateway_api", "replicas"],
)
def test_tables_of_exporters_name_features(names: set[str]) -> None:
    check_names(names | parts._BY_CLIENT | set(CHEAPER))


def test_the_longest_name_in_a_table_decides() -> None:
    tls, curves = emulated("files"), refused("none")
    table = VerdictTable({"listener.tls": tls, "listener.tls.curves": curves, "route.rewrite": curves})
    assert (table["listener.tls"], table["listener.tls.client"], table["listener.tls.curves"]) == (tls, tls, curves)
    assert (table["route.rewrite.host"], table["listener.l7"]) == (curves, NATIVE)
    assert VerdictTable({"": tls})["route.retries"] == tls
