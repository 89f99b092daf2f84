"""Operations on a lake table, one module each. The Spark jobs run `load`."""
