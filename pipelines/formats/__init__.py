"""Reads and writes records in files and topics: one module a format, which turns bytes into typed columns and
back.

Nothing here knows where bytes come from.
"""
