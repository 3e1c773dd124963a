"""Commands and writers on emulators of stores of objects."""
