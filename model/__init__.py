"""Mathematics: the problem, features, network, loss, decoding, curriculum. Knows no files."""
