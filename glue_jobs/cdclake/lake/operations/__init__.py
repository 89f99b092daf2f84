"""What is done to a lake table, one module for each operation. `load` is what the Spark jobs run."""
