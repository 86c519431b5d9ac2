"""What goes over the broker: reports in, commands out."""
