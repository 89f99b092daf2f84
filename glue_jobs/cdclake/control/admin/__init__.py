"""What operators do by hand: settings, undo, repair, clean-up."""
