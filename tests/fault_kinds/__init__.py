"""What others met, kind by kind: each file is a kind of fault, and holds for all of the kind (docs/guarantees.md)."""
