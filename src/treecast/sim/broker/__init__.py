"""The scenario of one broker with publishers and subscribers: what they do, and what must hold in the end."""
