"""What pages and verbs read about jobs: the documents of :mod:`anabranch.views`, from running jobs and the store."""
