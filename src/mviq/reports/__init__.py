"""From stored runs to numbers, figures and one page. Nothing here imports the learning library."""
