"""The engine of the transforms: what all of them are built from, in rooms that import each other in one direction.

* ``files``: files on any file system, and claims on them
* ``construction``: element types, tables, options and checks, while a pipeline is built
* ``blocks``: blocks of rows, which travel between stages
* ``turns``: the turn of a partition; ``unbounded``: turns at the end of ticks
* ``resumed``: runs that go on
* ``stages``: records routed to their partitions, and the replay of each

The modules at the top are the transforms' own: joins, groups, streams, their outputs, and how they go on. Nothing here is public.
"""
