"""What people do with scores: explain them, look at a corpus, compare layers, make baselines. Imported where used."""
