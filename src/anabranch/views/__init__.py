"""What a page or a verb reads about jobs: partial answers, small enough to be requested repeatedly."""
