"""AWS Auto Scaling Groups: which there are, how a new node of one would look, and which calls change their size.

Nothing here calls AWS: its data come in as values, and requests go out as calls.
"""
