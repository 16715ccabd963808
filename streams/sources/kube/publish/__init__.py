"""Publishing: objects of the cluster become facts and policies, each published when it changes."""
