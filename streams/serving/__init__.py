"""What we serve over HTTPS: the server, its certificates, and how they are renewed while it answers."""
