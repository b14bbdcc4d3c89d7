"""The fleet and the rates as they stand in their files: what is shown can be loaded again."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.model.time import format_instant
from warehouse.store import fleet as stored_fleet
from warehouse.store import rates as stored_rates


def fleet(connection: Connection, rev: int) -> list[dict[str, object]]:
    """Gives a dict per node and tenure, with the columns of fleet.csv; blank is None.

    It is what the fleet files said: a GPU that was changed since, or a slot that stands empty, is in `fleet history`.
    """
    return [
        {
            "site": node.site,
            "hall": node.hall,
            "rack": node.rack,
            "node": node.node,
            "gpus": node.gpus,
            "model": node.model,
            "commissioned": format_instant(node.start_ms),
            "retired": None if node.end_ms is None else format_instant(node.end_ms),
            "power_domain": node.domains[0],
            "leaf_switch": node.domains[1],
            "blast_domain": node.domains[2],
            "timezone": node.timezone,
            "state": "stranded" if node.stranded else None,
            "contract": node.contract,
            "currency": node.currency,
        }
        for node in stored_fleet.nodes(connection, rev)
    ]


def sites(connection: Connection, rev: int) -> list[str]:
    """Gives the names of the sites known at a revision."""
    return [site.name for site in stored_fleet.sites(connection, rev)]


def simulated(connection: Connection, rev: int) -> bool:
    """Tells whether every GPU of the fleet says of itself, in its model's name, that it is simulated."""
    models = connection.execute(
        text(
            "select distinct g.model from tenure t join gpu g on g.id = t.gpu_id where t.revs @> cast(:rev as bigint)"
        ),
        {"rev": rev},
    ).scalars()
    return all(model.endswith("(simulated)") for model in models)


def rates(connection: Connection, rev: int, card: str | None = None) -> list[dict[str, object]]:
    """Gives a dict per rate, of one card or of all, with the columns of rates.csv; blank is None.

    Raises:
        BadInput: for a card that has no rate.
    """
    stored = stored_rates.read(connection, rev)
    cards = sorted({rate.card for rate in stored})
    if card is not None and card not in cards:
        raise BadInput(f"--card: there is no rate card '{card}'; known are {', '.join(cards) or 'none'}")
    return [
        {
            "card": rate.card,
            "model": rate.model,
            "currency": rate.currency,
            "per_gpu_hour": f"{rate.per_gpu_hour.normalize():f}",
            "effective_from": format_instant(rate.start_ms),
            "effective_to": None if rate.end_ms is None else format_instant(rate.end_ms),
            "contract": rate.contract,
            "basis": rate.basis,
        }
        for rate in stored
        if card in (None, rate.card)
    ]
