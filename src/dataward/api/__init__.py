"""From Python: runs and simulates workflows, and tells one kind of report of both."""
