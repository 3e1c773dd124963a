"""The engine of the transforms: routing, blocks, state and timers, types at construction, arguments,
exceptions.

Nothing here is public.
"""
