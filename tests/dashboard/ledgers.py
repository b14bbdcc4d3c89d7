"""A small site with most states, as the files that its owner would load."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import run_cli

FILES = {
    "fleet.csv": """\
site,hall,rack,node,gpus,model,commissioned,state
ams1,hall-1,r1,n1,8,H100,2025-03-01T00:00:00Z,
ams1,hall-1,r1,n2,8,H100,2025-03-01T00:00:00Z,
ams1,hall-1,r2,n3,8,H100,2025-03-01T00:00:00Z,
ams1,hall-1,r2,n4,8,H100,2025-03-01T00:00:00Z,stranded
""",
    "rates.csv": """\
card,model,currency,per_gpu_hour,effective_from
list,H100,USD,2.45,2025-01-01
contract,H100,USD,1.99,2025-01-01
""",
    "allocations.csv": """\
job,attempt,tenant,kind,start,end,scope
llm,1,foundation,training,2025-03-01T06:00:00Z,2025-03-20T00:00:00Z,rack:r1
chat,1,product,inference,2025-03-01T00:00:00Z,2025-03-20T00:00:00Z,n3
""",
    "evidence.csv": """\
id,source,start,end,scope,state,cause,lost,detail
d1,facility,2025-03-05T14:00:00Z,2025-03-05T15:10:00Z,rack:r1,down,facility/data_hall_power_loss,,Utility dip
d2,scheduler,2025-03-05T12:40:00Z,2025-03-05T14:00:00Z,rack:r1,lost_work,facility/data_hall_power_loss,,Back to 12:40
h1,jobwatch,2025-03-08T02:10:00Z,2025-03-08T05:45:00Z,n2,hung,fabric/switch_or_cable,,No step & no error
g1,dcgm,2025-03-10T00:00:00Z,2025-03-12T00:00:00Z,n3,degraded,cooling/gpu_thermal,0.4,<b>hot</b> at $5
m1,ops,2025-03-15T06:00:00Z,2025-03-15T14:00:00Z,n3,maintenance,,,Firmware
i1,scheduler,2025-03-01T00:00:00Z,2025-03-01T06:00:00Z,rack:r1,idle,,,
s1,jobwatch,2025-03-01T06:00:00Z,2025-03-01T06:50:00Z,rack:r1,startup,,,
o1,dcgm,2025-03-19T10:00:00Z,,n1/3,down,accelerator/gpu_off_bus,,Xid 79
""",
}
COMMANDS = (
    ("fleet", "load", "fleet.csv"),
    ("rates", "load", "rates.csv"),
    ("import", "allocations", "allocations.csv"),
    ("import", "evidence", "evidence.csv"),
)
TRACE = Path(__file__).parent.parent / "fixtures" / "infinitehbd" / "fault_trace.json"
TRACE_RATES = "card,model,currency,per_gpu_hour,effective_from\nlist,unspecified,USD,2.45,2024-01-01\n"


def load_site(url: str, folder: Path) -> None:
    """Loads the small site into an empty database."""
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    _run(url, folder, *COMMANDS)


def load_trace(url: str, folder: Path) -> None:
    """Loads the public fault trace: 97.7 % of its time nobody observed."""
    (folder / "rates.csv").write_text(TRACE_RATES, encoding="utf-8")
    _run(url, folder, ("import", "infinitehbd", str(TRACE)), ("rates", "load", "rates.csv"))


def _run(url: str, folder: Path, *commands: tuple[str, ...]) -> None:
    for command in commands:
        answer = run_cli(url, *command, cwd=folder)
        assert answer.code == 0, answer.err
