"""The values of the labels `cluster` and `namespace`, of which no more are given than a scraper can take."""

Namespace = tuple[str, str]
"""A cluster and a namespace of it."""
OTHERS = "(others)"
"""No name of a namespace, because of its brackets."""
_MOST = 1_000


class NamespaceLabels:
    """The first thousand namespaces have labels of their own. All others are shown as `OTHERS` of their cluster."""

    def __init__(self) -> None:
        self._own: set[Namespace] = set()
        self._clusters: set[str] = set()

    def of(self, cluster: str, namespace: str) -> Namespace:
        """The labels under which a namespace is shown."""
        names = cluster, namespace
        if names in self._own:
            return names
        # Whoever may write facts can name any number of namespaces, and of clusters, that do not exist.
        if len(self._clusters) < _MOST:
            self._clusters.add(cluster)
        if len(self._own) < _MOST:
            self._own.add(names)
            return names
        return cluster if cluster in self._clusters else OTHERS, OTHERS

    def forget(self, names: Namespace) -> None:
        """This namespace is shown no more; another may have its place."""
        self._own.discard(names)
