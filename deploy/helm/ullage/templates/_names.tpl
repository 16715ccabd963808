{{/* Names and what every object carries. Names are fixed, as in deploy/rbac: one release a cluster. */}}
{{- define "ullage.labels" -}}
app.kubernetes.io/name: ullage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ullage.brokers" -}}
{{- if eq .Values.kafka.kind "single" -}}
ullage-kafka.{{ .Release.Namespace }}.svc:9092
{{- else -}}
{{- required "kafka.brokers is needed: HOST:PORT of your Kafka, or kafka.kind=single to try without one" .Values.kafka.brokers -}}
{{- end -}}
{{- end }}

{{/* The components that run in this mode: name, account, command, values, and what is peculiar to it. */}}
{{- define "ullage.components" -}}
{{- $v := .Values -}}
{{- $acts := eq $v.mode "apply" -}}
{{- $writes := ne $v.mode "watch" -}}
{{- $list := list
  (dict "name" "clock" "account" "ullage-agents" "args" (list "source" "clock") "values" $v.clock)
  (dict "name" "worker" "account" "ullage-agents" "args" (list "worker") "values" $v.worker "many" true)
  (dict "name" "source-kube" "account" "ullage-source-kube" "args" (list "source" "kube") "values" $v.sourceKube "api" true)
  (dict "name" "source-usage" "account" "ullage-source-usage" "args" (list "source" "usage") "values" $v.sourceUsage "api" true) -}}
{{- if $writes -}}
{{- $list = append $list (dict "name" "consumer-status" "account" "ullage-consumer-status" "args" (list "consumer" "status") "values" $v.statusConsumer "api" true) -}}
{{- end -}}
{{- if $acts -}}
{{- $list = append $list (dict "name" "consumer-resizer" "account" "ullage-consumer-resizer" "args" (list "consumer" "resizer") "values" $v.resizer "api" true) -}}
{{- $list = append $list (dict "name" "consumer-evictor" "account" "ullage-consumer-evictor" "args" (list "consumer" "evictor") "values" $v.evictor "api" true) -}}
{{- $list = append $list (dict "name" "webhook" "account" "ullage-webhook" "args" (list "consumer" "webhook") "values" $v.webhookServer "api" true "many" true "port" 8000) -}}
{{- end -}}
{{- if $v.nodeScaling.enabled -}}
{{- $list = append $list (dict "name" "source-asg" "account" "ullage-source-asg" "args" (list "source" "asg") "values" $v.sourceAsg "api" true "aws" true) -}}
{{- if $acts -}}
{{- $list = append $list (dict "name" "consumer-asg" "account" "ullage-consumer-asg" "args" (list "consumer" "asg") "values" $v.asgConsumer "api" true "aws" true) -}}
{{- end -}}
{{- end -}}
{{- if $v.replicaScaling.enabled -}}
{{- $list = append $list (dict "name" "source-load" "account" "ullage-agents" "args" (list "source" "load") "values" $v.sourceLoad) -}}
{{- end -}}
{{- if and $v.replicaScaling.enabled $acts -}}
{{- $list = append $list (dict "name" "consumer-autoscalers" "account" "ullage-consumer-autoscalers" "args" (list "consumer" "autoscalers") "values" $v.autoscalersConsumer "api" true) -}}
{{- $list = append $list (dict "name" "metrics-api" "account" "ullage-metrics-api" "args" (list "consumer" "metrics-api") "values" $v.metricsApi "api" true "many" true "port" 6443) -}}
{{- end -}}
{{- $list | toJson -}}
{{- end }}

{{/* The settings of all components, as ullage.yaml. */}}
{{- define "ullage.settings" -}}
{{- $security := dict "protocol" .Values.kafka.security.protocol -}}
{{- with .Values.kafka.security.mechanism }}{{ $_ := set $security "mechanism" . }}{{ end -}}
{{- with .Values.kafka.security.region }}{{ $_ := set $security "region" . }}{{ end -}}
{{- $cluster := dict "name" .Values.clusterName "nodes" .Values.nodeScaling.enabled "replicas" .Values.replicaScaling.enabled -}}
{{- $aws := dict -}}
{{- with .Values.nodeScaling.region }}{{ $_ := set $aws "region" . }}{{ end -}}
{{- with .Values.nodeScaling.groups }}{{ $_ := set $aws "groups" . }}{{ end -}}
{{- with .Values.nodeScaling.discovery }}{{ $_ := set $aws "discovery" . }}{{ end -}}
{{- $usage := dict "reads" .Values.usage.reads -}}
{{- $tree := dict
  "log" (dict "brokers" (include "ullage.brokers" .) "security" $security)
  "topics" (dict "prefix" .Values.kafka.topicPrefix "partitions" (int .Values.kafka.partitions) "replication" (int .Values.kafka.replication))
  "cluster" $cluster
  "usage" $usage
  "vertical" (dict "recommender" .Values.recommender)
  "webhook" (dict "namespace" .Release.Namespace "failure_policy" .Values.webhook.failurePolicy)
  "metrics_api" (dict "namespace" .Release.Namespace)
  "aws" $aws -}}
{{- with .Values.usage.prometheusUrl }}{{ $_ := set $tree "prometheus" (dict "url" .) }}{{ end -}}
{{- mergeOverwrite $tree (deepCopy .Values.settings) | toYaml -}}
{{- end }}

{{/* The ports of Prometheus that somebody asks, and those that are asked for by value. */}}
{{- define "ullage.otherPorts" -}}
{{- $ports := .Values.networkPolicy.egressPorts | default list -}}
{{- if or .Values.replicaScaling.enabled (eq .Values.usage.reads "prometheus") -}}
{{- $url := .Values.usage.prometheusUrl | default (dig "prometheus" "url" "http://prometheus.monitoring.svc" .Values.settings) -}}
{{- $host := (urlParse $url).host -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" | default (hasPrefix "https:" $url | ternary "443" "80") -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end }}

{{- define "ullage.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: ["ALL"]}
{{- end }}

{{- define "ullage.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "ullage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether the Secrets are those that Strimzi makes: of our KafkaUser, and of its cluster's authority. */}}
{{- define "ullage.strimziSecrets" -}}
{{- if and (eq .Values.kafka.kind "strimzi") (not .Values.kafka.security.secret) }}yes{{ end -}}
{{- end }}

{{/* Environment by which secrets of Kafka reach the settings. */}}
{{- define "ullage.environment" -}}
{{- $tls := has .Values.kafka.security.protocol (list "SSL" "SASL_SSL") }}
{{- $strimzi := include "ullage.strimziSecrets" . }}
{{- if and $strimzi (ne .Values.kafka.security.protocol "SSL") }}
- {name: ULLAGE_LOG__SECURITY__USERNAME, value: ullage}
- {name: ULLAGE_LOG__SECURITY__PASSWORD, valueFrom: {secretKeyRef: {name: ullage, key: password}}}
{{- end }}
{{- with .Values.kafka.security.secret }}
- {name: ULLAGE_LOG__SECURITY__USERNAME, valueFrom: {secretKeyRef: {name: {{ . }}, key: username, optional: true}}}
- {name: ULLAGE_LOG__SECURITY__PASSWORD, valueFrom: {secretKeyRef: {name: {{ . }}, key: password, optional: true}}}
{{- end }}
{{- if and $tls (or $strimzi .Values.kafka.security.secret) }}
- {name: ULLAGE_LOG__SECURITY__FOLDER, value: /etc/ullage/kafka}
{{- end }}
{{- end }}

{{- define "ullage.mounts" -}}
- {name: settings, mountPath: /etc/ullage/settings, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if or .Values.kafka.security.secret (include "ullage.strimziSecrets" .) }}
- {name: kafka, mountPath: /etc/ullage/kafka, readOnly: true}
{{- end }}
{{- end }}

{{- define "ullage.volumes" -}}
- {name: settings, configMap: {name: ullage-settings}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- with .Values.kafka.security.secret }}
- {name: kafka, secret: {secretName: {{ . }}}}
{{- end }}
{{- if include "ullage.strimziSecrets" . }}
- name: kafka
  projected:
    sources:
      - secret: {name: {{ .Values.kafka.strimzi.cluster }}-cluster-ca-cert, items: [{key: ca.crt, path: ca.crt}]}
      {{- if eq .Values.kafka.strimzi.authentication "tls" }}
      - secret: {name: ullage, items: [{key: user.crt, path: user.crt}, {key: user.key, path: user.key}]}
      {{- end }}
{{- end }}
{{- end }}
