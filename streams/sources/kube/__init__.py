"""The kube source: watches a Kubernetes API server and puts facts about pods, nodes, kills, VPAs and limit ranges into the log.

Data flows one way, from folder to folder:

watch      list-watch of each resource: objects seen and gone, watches in sync or failed; look-ups beside it
owners     the chain of controllers above each pod and each VPA's target
publish    objects become facts and policies, each published when it changes
kube_source    hands what one part yields to the next, with the log
watch_threads  runs it all: a thread for each watch, one for look-ups, and the caller's

The source reports what it saw and never judges. It reads no clock: its caller gives it the time.
"""
