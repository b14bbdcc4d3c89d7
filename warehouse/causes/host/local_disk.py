"""Local disk fault."""

from warehouse.causes.bmc import alarm
from warehouse.causes.examples import series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

# Of disks; what comes over the network is the storage's own fault, and images are read-only by nature.
_LOCAL = 'fstype=~"ext[234]|xfs|btrfs|zfs|f2fs"'
_ROOT = {"node": "n1", "device": "/dev/nvme0n1p2", "mountpoint": "/", "fstype": "ext4"}
_DATA = {"node": "n1", "device": "/dev/md0", "mountpoint": "/models", "fstype": "xfs"}
_NFS = {"node": "n1", "device": "store:/home", "mountpoint": "/home", "fstype": "nfs4"}
_READ_ONLY, _ERROR = "node_filesystem_readonly", "node_filesystem_device_error"

CAUSE = Cause(
    title="Local disk fault",
    rank=23,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "node_filesystem_device_error is 1 on a local file system; or node_filesystem_readonly turns from 0 to 1, "
        "which counts until the node boots; or, as an event, the BMC calls a drive critical."
    ),
    duration="hours",
    blast="node",
    source="Llama 3 (3 interruptions), Meta RSC (block device check)",
    first_step="Drain the node, save what the job still needs from the disk, and swap the drive.",
    payer="provider",
    runbook=(
        "Name the disk: device and mountpoint of node_filesystem_device_error or node_filesystem_readonly.",
        "Read its errors: `journalctl -k | grep -iE 'i/o error|nvme|ext4|xfs'` and `smartctl -a /dev/DISK`.",
        "Drain the node, and copy off what is only there: checkpoints, logs, the crash dump.",
        "Check the file system unmounted (`fsck`, `xfs_repair`); a clean drive after a lost cable may stay.",
        "Swap the drive, build the array again, and boot: the evidence ends with the boot.",
    ),
    other_sources=("kernel log", "SMART readings", "BMC event log", "a person: import evidence"),
    detectors=(
        Detector(
            key="local_disk_error",
            version=1,
            expr=f"{_ERROR}{{{_LOCAL}}} == 1",
            scope="node",
            state=State.DOWN,
            min_duration_ms=60_000,
            cases=(
                Case(
                    "the scratch array gives no answer for ten minutes",
                    {series(_ERROR, _DATA): "0x39 1x39 0x39", series(_ERROR, _ROOT): "0x119"},
                    told=(Told("n1", 600, 1200),),
                ),
                Case("a stale mount of the network", {series(_ERROR, _NFS): "0x39 1x79"}),
            ),
            why="A local file system of the node answers with an error.",
        ),
        Detector(
            key="local_disk_read_only",
            version=1,
            # Only the turn counts: what has always been read-only is meant to be.
            expr=(
                f"{_READ_ONLY}{{{_LOCAL}}} == 1 and on (node, device, mountpoint) "
                f"min_over_time({_READ_ONLY}{{{_LOCAL}}}[$window]) == 0"
            ),
            window_ms=310_000,
            window_of="max",
            scope="node",
            state=State.DOWN,
            min_duration_ms=60_000,
            # A kernel that met errors mounts read-only and stays so until the file system is checked.
            clears=("node_boot_time_seconds",),
            severity="page",
            cases=(
                Case(
                    "the kernel gives up writing to the root",
                    {series(_READ_ONLY, _ROOT): "0x39 1x99"},
                    told=(Told("n1", 600, None),),
                ),
                Case(
                    "and a boot ends it",
                    {
                        series(_READ_ONLY, _ROOT): "0x39 1x59 0x39",
                        'node_boot_time_seconds{node="n1"}': "-90000x99 1480x39",
                    },
                    told=(Told("n1", 600, 1500),),
                    also=("node_rebooted",),
                ),
                Case(
                    "models on a disk that is read-only by design, mounted before and mounted now",
                    {
                        series(_READ_ONLY, _DATA): "1x119",
                        series(_READ_ONLY, {**_DATA, "mountpoint": "/m2"}): "_x39 1x79",
                    },
                ),
                Case("a read-only share of the network", {series(_READ_ONLY, _NFS): "0x39 1x79"}),
            ),
            why="A local file system of the node has turned read-only.",
        ),
        alarm("bmc_drive", "Drive Slot", "Drive Slot", State.DOWN, "The BMC calls a drive critical."),
    ),
)
