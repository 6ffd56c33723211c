"""The library in frameworks: a module per framework, each an extra, and never imported by the library itself.

None of them counts by itself. They make one client per process or application, end it with the application, and turn
errors into HTTP responses. They share `url_config`, `proxy`, `shutdown`, `http_errors` and `idempotency`.
"""
