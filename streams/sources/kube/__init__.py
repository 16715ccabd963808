"""The kube source: watches a Kubernetes API server and puts facts about pods, nodes, kills, VPAs and limit ranges into the log.

changes    what a watch shows: seen, gone, in sync, blind       (changes, reflector)
owners     controllers as they own each other                   (owners, scaled, topmost)
parts      each turns changes into facts of one kind            (pods, kills, evictions, nodes, limits, vpas, seeds)
source     the parts together, with the log                     (source)
watchers   a thread for each watch, and the inbox between       (watchers)

Reports what it saw and never judges. Reads no clock: `now` is given.
"""
