"""What runs within ministack's process, and makes it do what it does not do by itself."""
