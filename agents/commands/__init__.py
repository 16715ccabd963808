"""What the command line's commands do, in rooms by what people want."""
