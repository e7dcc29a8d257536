"""The messages that users and containers exchange with the coordinator, within one process or over HTTP."""
