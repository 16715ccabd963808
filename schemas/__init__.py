"""The words of the project. Everything else is written in them; this package imports nothing of ours.

The log
log       the ordered records of all topics; Kafka, a file or memory
event     a fact, a policy, a decision or an outcome: frozen, past tense, with `at` in UTC
record    an event's bytes in the log; its place is topic, partition and offset
fact      what a source saw                                        (schemas.facts)
policy    what an operator asked for                               (schemas.policies)
decision  what an agent concluded, with `because` for people       (schemas.decisions)
outcome   what a consumer did, did not do, and why                 (schemas.outcomes)
subject   what a decision is about: a pod, workload, node, node group or API object
cause     the record that led to another one, named in a header; `ullage why` follows it
dead letter  a record that cannot be read or believed: kept aside with its reason, and nothing else stops
lift      how an event of an older version becomes one of today's

Names
cluster   the name under which one Kubernetes cluster is in the log
workload  the topmost controller of a pod, as `cluster/namespace/kind/name`
aggregate  the usage of all containers that share a name and their pods' labels, across restarts
tenant    whoever may create objects in a namespace, and may be hostile

Time
tick      a record of the clock that counts: its number is its time in milliseconds, and it says how far each partition had got
turn      all records of one partition between the ends that two ticks say; nothing else sets the pace
event time  the time that ticks and events carry; no stage sees a wall clock

Deciding
stage     a pure function with state: (state, turn) -> decisions
state     what a stage remembers of one partition
task      one partition of one stage at work: aligner, codec and state
checkpoint  a consistent copy of a task's state in a changelog, as chunks and one mark
mark      the record that makes chunks a checkpoint: it names each with its checksum, and the turn they stand for
rules     the version of the code and the settings that a stage decides by; a record in the log agrees on them
guard     a reason to leave a subject alone; a refusal names the first one that objects
budget    how much may be away at one time: of a workload, a namespace, a cluster

Acting
source    puts facts, policies or ticks into the log
consumer  carries out decisions and appends outcomes
mode      shadow (decisions are written, nothing acts), plan, or apply
plan      a decision that asks a consumer to act; it expires
view      the newest decision for each key
lease     the Kubernetes object by which one of two instances acts, and by which a webhook is known to be alive
"""
