"""What a person's terminal gets: sentences, tables that fit, progress, and no text that could command it."""
