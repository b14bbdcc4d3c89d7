"""Alerts: what webhooks and Alertmanager itself say, read, keyed and told as episodes. A trigger, no source of time."""
