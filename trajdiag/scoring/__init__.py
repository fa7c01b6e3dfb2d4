"""Every readout on every store, chosen on val and measured on test."""
