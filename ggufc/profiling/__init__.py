"""Where the time of a bundle's graphs goes, beside what the machine could do at best."""
