"""How the transforms run: routing, blocks, state and timers, types at construction, arguments, exceptions.

Nothing here is public.
"""
