"""The words of the project. Everything else is written in them; they know nobody.

fact      what a source saw                                        (schemas.facts)
policy    what an operator asked for                               (schemas.policies)
decision  what an agent concluded, with `because`                  (schemas.decisions)
outcome   what a consumer did, did not do, and why                 (schemas.outcomes)
event     any of the four: frozen, past tense, with `at` in UTC
record    an event's bytes in the log; its place is topic, partition and offset
log       the ordered records of all topics; Kafka, a file or memory
tick      a record of the clock; its number is its time in milliseconds
turn      all records of one partition between two ticks that every input of a stage holds
stage     a pure function with state: (state, turn) -> decisions
state     what a stage remembers of one partition
task      one partition of one stage at work: aligner, codec and state
checkpoint  a consistent copy of a task's state in a changelog, with a mark that names its parts
source    puts facts, policies or ticks into the log
consumer  carries out decisions and appends outcomes
view      newest decision for each key
"""
