"""What a person types. One file a command; heavy imports stay inside the commands so that ``--help`` is quick."""
