"""The command line: ``mviq`` and its subcommands, one file each."""
