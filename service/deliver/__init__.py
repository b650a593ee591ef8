"""Deliveries of changes to the addresses of subscriptions, and what is known of them."""
