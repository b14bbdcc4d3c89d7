"""The fleet and the rates as they stand in their files: what is shown can be loaded again."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.time import format_instant
from warehouse.store import fleet as stored_fleet
from warehouse.store import rates as stored_rates

_FLEET = """
select site.name as site, hall.name as hall, rack.name as rack, node.name as node, count(*) as gpus, g.model,
  ms_of(lower(t.during)) as start_ms,
  case when upper_inf(t.during) then null else ms_of(upper(t.during)) end as end_ms,
  node.power_domain, node.leaf_switch, node.blast_domain, site.timezone, t.stranded
from tenure t join gpu g on g.id = t.gpu_id
join place_extent x on x.slots && t.slot_k and x.revs @> cast(:rev as bigint)
join place node on node.kind = 'node' and node.id = x.place_id join place rack on rack.id = node.parent_id
join place hall on hall.id = rack.parent_id join place site on site.id = hall.parent_id
where t.revs @> cast(:rev as bigint)
group by 1, 2, 3, 4, g.model, t.during, node.power_domain, node.leaf_switch, node.blast_domain, site.timezone,
  t.stranded
order by min(t.slot), start_ms
"""


def fleet(connection: Connection, rev: int) -> list[dict[str, object]]:
    """Gives a dict per node and tenure, with the columns of fleet.csv; blank is None."""
    return [
        {
            "site": row.site,
            "hall": row.hall,
            "rack": row.rack,
            "node": row.node,
            "gpus": row.gpus,
            "model": row.model,
            "commissioned": format_instant(row.start_ms),
            "retired": None if row.end_ms is None else format_instant(row.end_ms),
            "power_domain": row.power_domain,
            "leaf_switch": row.leaf_switch,
            "blast_domain": row.blast_domain,
            "timezone": row.timezone,
            "state": "stranded" if row.stranded else None,
        }
        for row in connection.execute(text(_FLEET), {"rev": rev})
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


def rates(connection: Connection, rev: int) -> list[dict[str, object]]:
    """Gives a dict per rate, with the columns of rates.csv; blank is None."""
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
        for rate in stored_rates.read(connection, rev)
    ]
