"""Drive coding agents through the stories of a change until every story is truly done."""

__version__ = "0.1.0"
