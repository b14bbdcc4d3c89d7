"""The only folder that imports pynvml: every NVML error becomes a `DriverError` or a reason here.

Runs in the driver processes alone; the process that serves HTTP never loads libnvidia-ml, since a call into a hung
driver cannot be ended from outside.

    call.py      one driver call; codes to reasons; open and close      identity.py  who a GPU is
    source.py    what a source of readings is                           sources/     one file per subject, discovered
    events.py    XIDs                                            gpm.py      two samples of hardware counters
    mig.py       the instances of a board                        processes.py  what computes on it
"""
