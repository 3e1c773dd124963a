"""The operators on tables and streams as pure functions of rows and a state."""
