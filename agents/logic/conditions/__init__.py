"""What the status of VPA objects should say: policies, pods and recommendations in, conditions out."""
