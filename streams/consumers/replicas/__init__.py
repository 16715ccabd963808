"""The consumer that keeps what follows from EHPAs, and the scaler that carries plans out."""
