"""One module for each loop: how to install it, feed it, call it, and read what it calls done."""
