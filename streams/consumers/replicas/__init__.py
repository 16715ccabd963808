"""The consumer that keeps the objects of EHPAs up to date, and the scaler that carries plans out."""
