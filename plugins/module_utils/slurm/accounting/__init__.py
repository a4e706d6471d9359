"""Plan accounts, users and QOS of the accounting database."""
