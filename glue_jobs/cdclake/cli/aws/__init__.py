"""How the command reaches AWS."""
