"""Small models of protocols, searched for every state that they can be in."""
