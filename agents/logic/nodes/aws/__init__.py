"""AWS Auto Scaling Groups: which there are, how a new node of one would look, and which calls change their size.

Nothing here calls AWS: what is needed from it comes in as values, and what is wanted of it goes out as calls.
"""
