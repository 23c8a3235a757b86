"""What agents print, made into notices and a reading."""
