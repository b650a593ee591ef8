"""How an answer is packed for its way: which coding the client takes, and its compression."""
