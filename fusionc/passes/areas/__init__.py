"""The names under which CANN has automatic fusion; graph kernel fusion does their work."""
