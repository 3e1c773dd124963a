"""What the commands have in common: options, errors in one sentence, progress, the summary, and ending in good order."""
