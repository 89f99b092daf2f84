"""Operations that operators start by hand: settings, undo, repair, clean-up."""
