"""From features and weights to potentials, and back from beliefs to gradients."""
