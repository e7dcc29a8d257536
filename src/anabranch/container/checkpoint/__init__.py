"""Whether a lane's checkpoint folder can be gone on from, and how one that was damaged is mended."""
