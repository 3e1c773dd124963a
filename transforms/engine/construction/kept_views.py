"""Pipeline options that parse the command line once, and not each time that Beam reads one."""

from typing import Any, cast

from apache_beam.options.pipeline_options import PipelineOptions, PipelineOptionsT

_VIEWS = "_kept_views"


class KeptViews(PipelineOptions):
    """The same options, whose views are made once.

    While Beam builds a pipeline it asks for one at every transform and every type that it compares.

    >>> from apache_beam.options.pipeline_options import StandardOptions
    >>> options = KeptViews(["--streaming"])
    >>> options.view_as(StandardOptions).runner = "PrismRunner"
    >>> options.view_as(StandardOptions) is options.view_as(StandardOptions), options.get_all_options()["runner"]
    (True, 'PrismRunner')
    """

    def view_as(self, cls: type[PipelineOptionsT]) -> PipelineOptionsT:
        """The options of a class; they are shared with all other views."""
        views = self.__dict__.setdefault(_VIEWS, {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return cast(PipelineOptionsT, views[cls])

    def __getstate__(self) -> dict[str, Any]:
        """Without the views, which belong to this object."""
        state = super().__getstate__()  # type: ignore[no-untyped-call]
        return {name: value for name, value in state.items() if name != _VIEWS}


def keep_views(options: PipelineOptions) -> None:
    """Make the views of these options once from now on, unless they are of a class of somebody else.

    >>> options = PipelineOptions()
    >>> keep_views(options)
    >>> type(options).__name__
    'KeptViews'
    """
    if type(options) is PipelineOptions:
        object.__setattr__(options, "__class__", KeptViews)
