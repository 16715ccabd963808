"""Which pods to change, when and how: recommendations, pods and guards in; plans and refusals out."""
