"""Two small changelogs through a join, position by position: computed by the transforms, shown in a terminal
or drawn.
"""
