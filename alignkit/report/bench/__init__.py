"""Page of a bench: the frontier of speed and drift, the service table, published figures beside."""
