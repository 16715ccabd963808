"""The command lines of the control plane's programs: everything on loopback, small, without leader election."""

import json
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
TOKENS = {
    "admin": ("the-test", "system:masters"),
    "ullage": ("ullage", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": ("kwok", "system:masters"),
}
"""Who may ask: user and group. The token is the word with `-token` behind it; it is good for one plane on loopback only."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one plane's files lie, and its ports."""

    folder: Path
    programs: Path
    etcd: int
    peer: int
    api: int
    controllers: int
    scheduler: int
    kwok: int

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.api}"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.log"

    def pki(self, name: str) -> Path:
        return self.folder / "pki" / name

    def kubeconfig(self, who: str) -> Path:
        return self.folder / f"{who}.kubeconfig"

    def token(self, who: str) -> str:
        return f"{who}-token"


def write_files(at: Place) -> None:
    """The API server's list of tokens, a kubeconfig for everybody on it (JSON is YAML), and what is written down: all changes."""
    rule = {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]}
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [rule]}
    (at.folder / "audit.json").write_text(json.dumps(policy), encoding="utf-8")
    rows = [f'{at.token(who)},{user},{user},"{group}"' for who, (user, group) in TOKENS.items()]
    (at.folder / "tokens.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for who in TOKENS:
        cluster = {"server": at.url, "certificate-authority": str(at.pki("ca.crt"))}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": who, "user": {"token": at.token(who)}}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": who}}],
            "current-context": "plane",
        }
        at.kubeconfig(who).write_text(json.dumps(config), encoding="utf-8")


def etcd(at: Place) -> list[str]:
    """Nothing is synced to disk: the data live as long as the tests."""
    client, peer = f"http://{HOST}:{at.etcd}", f"http://{HOST}:{at.peer}"
    return [
        str(at.programs / "etcd"),
        "--name=e",
        f"--data-dir={at.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=e={peer}",
        "--unsafe-no-fsync",
    ]


def apiserver(at: Place) -> list[str]:
    """Without service accounts for pods: nothing has to be waited for in a new namespace."""
    return [
        str(at.programs / "kube-apiserver"),
        f"--etcd-servers=http://{HOST}:{at.etcd}",
        f"--bind-address={HOST}",
        f"--secure-port={at.api}",
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={at.folder / 'audit.json'}",
        f"--audit-log-path={at.audit}",
        f"--token-auth-file={at.folder / 'tokens.csv'}",
        f"--client-ca-file={at.pki('ca.crt')}",
        *_serving(at),
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={at.pki('sa.pub')}",
        f"--service-account-signing-key-file={at.pki('sa.key')}",
        f"--proxy-client-cert-file={at.pki('front.crt')}",
        f"--proxy-client-key-file={at.pki('front.key')}",
        f"--requestheader-client-ca-file={at.pki('front-ca.crt')}",
        "--requestheader-allowed-names=front",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]


def controllers(at: Place) -> list[str]:
    return [
        str(at.programs / "kube-controller-manager"),
        *_component(at, "controllers", at.controllers),
        f"--service-account-private-key-file={at.pki('sa.key')}",
        f"--root-ca-file={at.pki('ca.crt')}",
        "--use-service-account-credentials=true",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def scheduler(at: Place) -> list[str]:
    qps = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
    return [str(at.programs / "kube-scheduler"), *_component(at, "scheduler", at.scheduler), *qps]


def kwok(at: Place) -> list[str]:
    """Without leases on nodes: a kwok that starts again would wait for those of the one before."""
    return [
        str(at.programs / "kwok"),
        f"--kubeconfig={at.kubeconfig('kubelet')}",
        f"--config={at.folder / 'stages.yaml'}",
        "--manage-all-nodes=true",
        "--cidr=10.244.0.0/16",
        f"--node-ip={HOST}",
        f"--node-port={at.kwok}",
        f"--server-address={HOST}:{at.kwok}",
        "--node-lease-duration-seconds=0",
    ]


def _component(at: Place, who: str, port: int) -> list[str]:
    config = str(at.kubeconfig(who))
    configs = [f"--{what}={config}" for what in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
    return [*configs, f"--bind-address={HOST}", f"--secure-port={port}", "--leader-elect=false", *_serving(at)]


def _serving(at: Place) -> list[str]:
    return [f"--tls-cert-file={at.pki('server.crt')}", f"--tls-private-key-file={at.pki('server.key')}"]
