"""The plain data on which all decisions are based, and its JSON form."""
