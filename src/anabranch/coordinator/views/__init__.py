"""Makes the documents of :mod:`anabranch.views` from running jobs and the store."""
