"""Bad inputs, killed studies and very large studies."""
