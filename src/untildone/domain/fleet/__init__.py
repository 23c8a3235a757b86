"""Changes of many repositories on many machines: what is ordered, how it goes, who may begin."""
