"""Code that runs in ministack's process and patches what ministack lacks or does differently from AWS."""
