"""What a page or a verb reads of jobs: answers by part, small enough to be asked for again and again."""
