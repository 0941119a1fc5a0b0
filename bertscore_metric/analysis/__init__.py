"""What people do with scores: explanations, and the choice of a layer and a baseline. Imported where used."""
