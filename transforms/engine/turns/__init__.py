"""The turn of a partition: its rows, in parts where they are too many, through an operator."""
