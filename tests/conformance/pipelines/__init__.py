"""The ops built of the public transforms, and scenarios run through them on a runner."""
