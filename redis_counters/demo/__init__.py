"""The demos and their page. The command line starts them; nothing else imports this."""
