"""What README.md and docs/ say is run, looked up and compared with the code."""
