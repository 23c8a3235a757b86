"""Changes of many repositories on many machines: `fleet`."""
