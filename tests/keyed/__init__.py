"""What is idempotent by a key, a user or a token: in both faces, through lost replies, fail-overs and interruptions."""
