"""The full screen: `untildone ui`."""
