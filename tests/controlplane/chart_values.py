"""The chart as Helm renders it with sets of values that people use."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "deploy/helm/ullage"
PLURAL = {"NetworkPolicy": "networkpolicies"}
CUSTOM = ("keda.sh", "kafka.strimzi.io", "monitoring.coreos.com", "cert-manager.io")
"""API groups that others install; the plane does not know them."""
SCRAM = {"kafka.security.protocol": "SASL_SSL", "kafka.security.mechanism": "SCRAM-SHA-512"}
VALUES: Mapping[str, Mapping[str, object]] = {
    "everything": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.discovery": ["asg:tag=k8s.io/cluster-autoscaler/enabled"],
        "nodeScaling.region": "eu-west-1",
        "replicaScaling.enabled": True,
        "usage.prometheusUrl": "http://prometheus.monitoring.svc:9090",
        "monitoring.serviceMonitor.enabled": True,
        "monitoring.prometheusRule.enabled": True,
        "monitoring.dashboard.enabled": True,
    },
    "watch": {"kafka.brokers": "kafka:9092"},
    "shadow": {"mode": "shadow", "kafka.brokers": "kafka:9092"},
    "plan": {"mode": "plan", "kafka.brokers": "a:9092,b:9093"},
    "apply": {"mode": "apply", "kafka.brokers": "kafka:9092", "webhook.failurePolicy": "Fail"},
    "tried out": {"kafka.kind": "single", "kafka.single.storage": ""},
    "tried out, kept": {"kafka.kind": "single", "mode": "shadow"},
    "strimzi": {
        "kafka.kind": "strimzi",
        "kafka.strimzi.cluster": "main",
        "kafka.brokers": "main-kafka-bootstrap.kafka:9093",
        **SCRAM,
    },
    "strimzi, by certificate": {
        "mode": "apply",
        "kafka.kind": "strimzi",
        "kafka.strimzi.cluster": "main",
        "kafka.strimzi.authentication": "tls",
        "kafka.brokers": "main-kafka-bootstrap.kafka:9093",
        "kafka.security.protocol": "SSL",
    },
    "scram": {
        "kafka.brokers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.security.mechanism": "SCRAM-SHA-512",
        "kafka.security.secret": "kafka-user",
    },
    "msk": {
        "kafka.brokers": "b-1.main.kafka.eu-west-1.amazonaws.com:9098",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.security.mechanism": "AWS_MSK_IAM",
        "kafka.security.region": "eu-west-1",
    },
    "keda": {"layout": "large", "kafka.brokers": "kafka:9092", "worker.keda.enabled": True, "networkPolicy.enabled": False},
    "prometheus": {
        "kafka.brokers": "kafka:9092",
        "usage.reads": "prometheus",
        "usage.prometheusUrl": "http://prometheus.monitoring.svc:9090",
        "settings.vertical.margin": 0.2,
        "podDisruptionBudget.enabled": False,
    },
    "usage that is sent": {"kafka.brokers": "kafka:9092", "usage.reads": "remote-write"},
    "usage that is sent, large": {"kafka.brokers": "kafka:9092", "usage.reads": "remote-write", "layout": "large"},
    "openshift": {"mode": "apply", "kafka.brokers": "kafka:9092"},
    "openshift, tried out": {"mode": "apply", "kafka.kind": "single"},
    "irsa": {
        "mode": "apply",
        "layout": "large",
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.groups": ["1:9:workers"],
        "accountAnnotations": {
            account: {"eks.amazonaws.com/role-arn": f"arn:aws:iam::111122223333:role/{account}"}
            for account in ("ullage-source-asg", "ullage-consumer-asg")
        },
    },
    "irsa, small": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.groups": ["1:9:workers"],
        "accountAnnotations": {"ullage-worker": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/ullage"}},
    },
    "external expander": {
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.groups": ["1:9:workers", "0:9:spot"],
        "nodeScaling.expander": {"url": "expander.kube-system.svc:7000", "certificateSecret": "expander-ca"},
    },
    "external expander, large": {
        "mode": "apply",
        "layout": "large",
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.groups": ["1:9:workers", "0:9:spot"],
        "nodeScaling.expander": {"url": "expander.kube-system.svc:7000", "certificateSecret": "expander-ca"},
        "settings.nodes.expanders": "priority,grpc,random",
    },
    "cert-manager": {"mode": "apply", "kafka.brokers": "kafka:9092", "webhook.certManager.enabled": True},
    "cert-manager, issuer": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "webhook.certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer", "name": "company"}},
    },
    "own certificate": {"mode": "apply", "kafka.brokers": "kafka:9092", "webhook.certificateSecret": "webhook-tls"},
    "proxy": {
        "kafka.brokers": "kafka:9092",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "NO_PROXY", "value": ".svc,10.0.0.0/8"}],
    },
    "istio": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "podLabels": {"sidecar.istio.io/inject": "true"},
        "podAnnotations": {"traffic.sidecar.istio.io/excludeOutboundPorts": "9092"},
        "webhookServer": {"podLabels": {"sidecar.istio.io/inject": "false"}},
        "serviceAnnotations": {"networking.istio.io/exportTo": "."},
    },
    "node pool": {
        "kafka.brokers": "kafka:9092",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "worker.tolerations": [{"key": "memory", "operator": "Equal", "value": "large", "effect": "NoSchedule"}],
        "worker.nodeSelector": {"pool": "memory"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}]}
                    ]
                }
            }
        },
        "priorityClassName": "system-cluster-critical",
    },
    "policies as code": {
        "kafka.brokers": "kafka:9092",
        "settings.vertical.policy": "/etc/ullage/policies/mine.py",
        "extraVolumes": [{"name": "policies", "configMap": {"name": "ullage-policies"}}],
        "extraVolumeMounts": [{"name": "policies", "mountPath": "/etc/ullage/policies", "readOnly": True}],
    },
    "authority": {
        "kafka.brokers": "kafka:9092",
        "usage.reads": "prometheus",
        "usage.prometheusUrl": "https://prometheus.monitoring.svc",
        "settings.prometheus.ca": "/etc/company/ca.crt",
        "sourceUsage.extraVolumes": [{"name": "company", "secret": {"secretName": "company-ca"}}],
        "sourceUsage.extraVolumeMounts": [{"name": "company", "mountPath": "/etc/company", "readOnly": True}],
    },
    "secrets from elsewhere": {
        "kafka.brokers": "kafka:9092",
        "envFrom": [{"secretRef": {"name": "ullage-environment", "optional": True}}],
        "worker.envFrom": [{"configMapRef": {"name": "worker", "optional": True}}],
    },
    "sandboxed": {"kafka.brokers": "kafka:9092", "runtimeClassName": "gvisor", "revisionHistoryLimit": 1},
    "names": {
        "kafka.brokers": "kafka:9092",
        "nameOverride": "autoscaler",
        "commonLabels": {"team": "platform", "cost-center": "42"},
        "commonAnnotations": {"example.com/owner": "platform"},
    },
    "mirror": {
        "kafka.brokers": "kafka:9092",
        "image": {"repository": "mirror.example/ullage", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "mirror"}],
    },
    "workload identity": {
        "mode": "apply",
        "kafka.brokers": "bootstrap.main.europe-west1.managedkafka.p.cloud.goog:9092",
        "accountAnnotations": {"ullage-worker": {"iam.gke.io/gcp-service-account": "ullage@p.iam.gserviceaccount.com"}},
        "nodeSelector": {"cloud.google.com/gke-spot": "true", "iam.gke.io/gke-metadata-server-enabled": "true"},
        "tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
        "networkPolicy.egress": [{"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}], "ports": [{"port": 988}]}],
    },
    "linkerd and vault": {
        "mode": "apply",
        "layout": "large",
        "kafka.brokers": "kafka:9092",
        "podAnnotations": {
            "linkerd.io/inject": "enabled",
            "config.linkerd.io/skip-outbound-ports": "9092,443",
            "vault.hashicorp.com/agent-inject": "true",
            "vault.hashicorp.com/agent-inject-template-kafka": '{{ with secret "kv/kafka" }}{{ .Data.data.password }}{{ end }}',
        },
        "webhookServer.podAnnotations": {"config.linkerd.io/skip-inbound-ports": "8000"},
    },
    "a bundle of authorities": {
        "mode": "shadow",
        "kafka.brokers": "kafka:9093",
        "kafka.security.protocol": "SSL",
        "kafka.security.secret": "kafka-ca",
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/trust/bundle.pem"}],
        "extraVolumes": [
            {
                "name": "trust",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "trust-bundle", "items": [{"key": "bundle.pem", "path": "bundle.pem"}]}},
                        {
                            "clusterTrustBundle": {
                                "signerName": "example.com/internal",
                                "labelSelector": {},
                                "path": "internal.pem",
                            }
                        },
                    ]
                },
            }
        ],
        "extraVolumeMounts": [{"name": "trust", "mountPath": "/etc/trust", "readOnly": True}],
    },
    "strict policies": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "commonLabels": {"pod-security.kubernetes.io/enforce": "restricted", "owner": "platform"},
        "podSecurityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "worker.resources": {
            "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
            "limits": {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "2Gi"},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        "podDisruptionBudget.enabled": True,
    },
    "argo and a secrets store": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "kafka.topicPrefix": "team-a",
        "commonAnnotations": {"argocd.argoproj.io/sync-wave": "5", "argocd.argoproj.io/sync-options": "ServerSideApply=true"},
        "extraVolumes": [
            {
                "name": "store",
                "csi": {
                    "driver": "secrets-store.csi.k8s.io",
                    "readOnly": True,
                    "volumeAttributes": {"secretProviderClass": "ullage"},
                },
            }
        ],
        "extraVolumeMounts": [{"name": "store", "mountPath": "/mnt/secrets", "readOnly": True}],
        "monitoring.prometheusRule.enabled": True,
        "monitoring.labels": {"release": "kube-prometheus-stack"},
    },
    "names of hosts": {
        "kafka.brokers": "kafka:9092",
        "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["kafka"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    },
    "sidecars": {
        "kafka.brokers": "kafka:9092",
        "worker.initContainers": [{"name": "wait", "image": "busybox:1.37", "command": ["true"]}],
        "worker.extraContainers": [{"name": "proxy", "image": "busybox:1.37", "command": ["sleep", "inf"]}],
        "networkPolicy.egress": [{"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}]}],
    },
}

API_VERSIONS = {name: ("security.openshift.io/v1",) for name in VALUES if name.startswith("openshift")}
"""What the API server of these offers beyond Kubernetes' own, for Helm to know."""


def asked(helm: Path, *words: str, values: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    sets = [
        word
        for name, value in {"clusterName": "prod", **values}.items()
        for word in ("--set-json", f"{name}={json.dumps(value)}")
    ]
    command = [str(helm), *words, str(CHART), *sets]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"HOME": "/nonexistent"})


def rendered(helm: Path, namespace: str, values: Mapping[str, object], apis: Sequence[str] = ()) -> list[dict[str, Any]]:
    offered = [word for api in apis for word in ("--api-versions", api)]
    done = asked(helm, "template", "ullage", "--namespace", namespace, "--kube-version", "1.34.0", *offered, values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def path_of(document: Mapping[str, Any]) -> str:
    group, kind = document["apiVersion"], document["kind"]
    base = "/api/v1" if group == "v1" else f"/apis/{group}"
    plural = PLURAL.get(kind, f"{kind.lower()}s")
    namespace = document["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod templates by the name of what makes them, and the pod of `helm test`."""
    made = {d["metadata"]["name"]: d["spec"]["template"] for d in documents if d["kind"] in {"Deployment", "Job", "StatefulSet"}}
    return {**made, **{d["metadata"]["name"]: d for d in documents if d["kind"] == "Pod"}}
