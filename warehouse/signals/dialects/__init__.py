"""Dialects: how one exporter speaks, one file each, found by a scan; a module here has one constant `DIALECT`."""
