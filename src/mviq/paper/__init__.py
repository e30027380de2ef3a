"""The paper, made checkable: its statements as numbers and its figures as commands."""
