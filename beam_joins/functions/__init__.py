"""The functions that users give: their forms, their calls, and the versions that runs compare."""
