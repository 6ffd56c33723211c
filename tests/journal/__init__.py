"""Journals: processes are killed anywhere, disks fail, files are damaged; nothing is lost, nothing counts twice."""
