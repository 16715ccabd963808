"""Ids of decisions and outcomes, and names of the tasks that publish; built and parsed in one place.

An id follows from its cause, so whoever recomputes a turn or carries a decision out again gives the same id, and readers
recognise the repeat.
"""

from dataclasses import dataclass

from schemas.outcomes import Action


@dataclass(frozen=True, slots=True)
class DecisionId:
    """`stage/partition/turn/kind/key`: the turn that a stage took it in, what kind of decision it is, and what it is about."""

    stage: str
    partition: int
    turn: int  # The turn's number, in milliseconds since the epoch.
    kind: str  # Tells the decisions of one turn about one key apart.
    # The workload's key or the pod's uid; it may itself contain slashes.
    key: str

    def __str__(self) -> str:
        """The form that events carry."""
        return f"{self.stage}/{self.partition}/{self.turn}/{self.kind}/{self.key}"

    @staticmethod
    def turn_of(text: str) -> int:
        """The turn in an id, four times as fast as `parse`. Raises the same ValueError."""
        try:
            _, partition, turn, _, _ = text.split("/", 4)
            # Only so that a text that `parse` refuses is refused here, too.
            int(partition)
            return int(turn)
        except ValueError:
            return DecisionId.parse(text).turn

    @staticmethod
    def parse(text: str) -> "DecisionId":
        """Inverse of `str`. Raises ValueError that quotes the text."""
        try:
            # From the left and no further: the key keeps its slashes.
            stage, partition, turn, kind, key = text.split("/", 4)
            return DecisionId(stage, int(partition), int(turn), kind, key)
        except ValueError:
            msg = f"'{text}' is no decision id (stage/partition/turn/kind/key)"
            raise ValueError(msg) from None


@dataclass(frozen=True, slots=True)
class OutcomeId:
    """`decision id/action/subject`: an action finished on one subject. `subject` is a `Subject.id`, which contains no slash."""

    decision: str
    action: Action
    subject: str

    def __str__(self) -> str:
        """The form that events carry."""
        return f"{self.decision}/{self.action.value}/{self.subject}"

    @staticmethod
    def parse(text: str) -> "OutcomeId":
        """Inverse of `str`. Raises ValueError that quotes the text."""
        try:
            # From the right, because the decision's own key may contain slashes and the subject never does.
            decision, action, subject = text.rsplit("/", 2)
            return OutcomeId(decision, Action(action), subject)
        except ValueError:
            msg = f"'{text}' is no outcome id (decision id/action/subject)"
            raise ValueError(msg) from None


@dataclass(frozen=True, slots=True)
class TaskSource:
    """`/ullage/stage/partition`: the source in the header of each record that a task publishes."""

    stage: str
    partition: int

    def __str__(self) -> str:
        """The form that headers carry."""
        return f"/ullage/{self.stage}/{self.partition}"

    @staticmethod
    def parse(text: str) -> "TaskSource":
        """Inverse of `str`. Raises ValueError that quotes the text, as for the source of a fact or an outcome."""
        before, _, task = text.partition("/ullage/")
        stage, _, partition = task.partition("/")
        if before or not stage or not partition.isdecimal():
            msg = f"'{text}' is no task (/ullage/stage/partition)"
            raise ValueError(msg)
        return TaskSource(stage, int(partition))
