"""Index engines, one file each, behind one Protocol."""
