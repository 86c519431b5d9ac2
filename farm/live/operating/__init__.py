"""What operators and provisioners ask of a live farm."""
