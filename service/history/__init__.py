"""What a listing was: the changes of its prices and its status."""
