"""Physics engines and robots: state, commands, gains."""
