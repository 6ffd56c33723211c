"""The library in frameworks: a module per framework, each an extra, imported only by those who ask for it.

None of them counts by itself. They make one client per process or application, end it with the application, and turn
errors into answers; what they have in common is in `url_config`, `proxy`, `shutdown`, `http_errors` and `idempotency`.
"""
