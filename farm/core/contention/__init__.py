"""How jobs on one builder slow each other down."""
