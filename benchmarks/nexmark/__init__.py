"""Nexmark: auctions, bids and persons of an online auction, and queries over them, kept as views."""
