"""Deliveries to subscriptions: real receivers over HTTP, and a real node."""
