{{/* Names and what every object carries. Names of objects are fixed, as in rbac: one release a cluster. */}}
{{- define "ullage.name" -}}
{{ .Values.nameOverride | default "ullage" }}
{{- end }}

{{- define "ullage.labels" -}}
app.kubernetes.io/name: {{ include "ullage.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ include "ullage.name" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What selects the pods of the release, or of one component. Only this may stand in selectors, which cannot be changed. */}}
{{- define "ullage.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "ullage.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* The beginning of an object: its name, and after it the name of its component if it belongs to one. */}}
{{- define "ullage.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace | quote }}
labels: {{- include "ullage.labels" $root | nindent 2 }}
{{- if gt (len .) 2 }}
  app.kubernetes.io/component: {{ index . 2 }}
{{- end }}
{{- with $root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ullage.brokers" -}}
{{- if eq .Values.kafka.kind "single" -}}
ullage-kafka.{{ .Release.Namespace }}.svc:9092
{{- else -}}
{{- required "kafka.brokers is needed: HOST:PORT of your Kafka, or kafka.kind=single to try without one" .Values.kafka.brokers -}}
{{- end -}}
{{- end }}

{{/* How processes sign in at Kafka. */}}
{{- define "ullage.security" -}}
{{- if eq .Values.kafka.kind "single" -}}
{{- dict "protocol" "SASL_SSL" "mechanism" "SCRAM-SHA-512" "region" "" | toJson -}}
{{- else -}}
{{- .Values.kafka.security | toJson -}}
{{- end -}}
{{- end }}

{{/* Whether each process has a user of its own at Kafka, with the rights of docs/security.md, and so has a pod for people's commands. */}}
{{- define "ullage.ownUsers" -}}
{{- if or (eq .Values.kafka.kind "single") (include "ullage.strimziSecrets" .) .Values.kafka.security.secrets }}yes{{ end -}}
{{- end }}

{{/* The Secret by which a process signs in; empty where Kafka asks for none. Called with root and the name of its component, `setup`
for the Job and `commands` for people. The Job makes topics and users at the chart's own Kafka, and so may do everything there. */}}
{{- define "ullage.kafkaSecret" -}}
{{- $name := index . 1 -}}
{{- with index . 0 -}}
{{- if eq .Values.kafka.kind "single" -}}
{{ ternary "ullage-kafka" (printf "ullage-kafka-%s" $name) (eq $name "setup") }}
{{- else if include "ullage.strimziSecrets" . -}}
ullage-kafka-{{ ternary "commands" $name (eq $name "setup") }}
{{- else -}}
{{ get (.Values.kafka.security.secrets | default dict) $name | default .Values.kafka.security.secret }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The users of processes at Kafka, by name: rights as `ullage topics users` reads them, of the rows of docs/security.md. */}}
{{- define "ullage.kafkaUsers" -}}
{{- $rights := .Files.Get "files/rights.json" | replace "{prefix}" .Values.kafka.topicPrefix | replace "{name}" (dig "worker" "name" "ullage" .Values.settings) | fromJson -}}
{{- $users := dict -}}
{{- range append (include "ullage.components" . | fromJsonArray) (dict "name" "commands" "kafka" (list "operator" "reader")) -}}
{{- $own := list -}}
{{- range .kafka -}}{{- $own = concat $own (get $rights .) -}}{{- end -}}
{{- $_ := set $users (printf "ullage-kafka-%s" .name) $own -}}
{{- end -}}
{{- $users | toJson -}}
{{- end }}

{{/* The components that run in this mode, by layout. large: a Deployment for each part. small: one for the worker and all that watches
and acts, and one for what answers the API server, which must be there while the first restarts. */}}
{{- define "ullage.components" -}}
{{- $parts := include "ullage.parts" . | fromJsonArray -}}
{{- if eq .Values.layout "large" -}}
{{- $parts | toJson -}}
{{- else -}}
{{- $work := dict "name" "worker" "account" "ullage-worker" "values" .Values.worker "args" (list "run") "api" true "shared" true -}}
{{- $serve := dict "name" "webhook" "account" "ullage-webhook" "values" .Values.webhookServer "args" (list "run") "api" true "many" true -}}
{{- range $part := $parts -}}
{{- $one := ternary $serve $work (hasKey $part "many" | and (hasKey $part "port")) -}}
{{- $_ := set $one "args" (append $one.args (join "-" $part.args)) -}}
{{- $_ := set $one "kafka" (concat ($one.kafka | default list) $part.kafka) -}}
{{- $_ := set $one "values" (include "ullage.together" (list $one.values ($part.values | default dict)) | fromJson) -}}
{{- if hasKey $part "port" -}}{{- $_ := set $one "ports" (append ($one.ports | default list) (dict "name" $part.portName "port" $part.port)) -}}{{- end -}}
{{- end -}}
{{- $args := list -}}
{{- range $work.args -}}{{- $args = append $args (trimPrefix "source-clock" . | default "clock") -}}{{- end -}}
{{- $_ := set $work "args" $args -}}
{{- ternary (list $work $serve) (list $work) (hasKey $serve "ports") | toJson -}}
{{- end -}}
{{- end }}

{{/* The values of a process, and beside them what a part of it adds: what it is told and mounts, and not where it runs or what it may use. */}}
{{- define "ullage.together" -}}
{{- $all := deepCopy (index . 0) -}}
{{- $part := index . 1 -}}
{{- range $name := list "extraArgs" "extraEnv" "envFrom" "extraVolumes" "extraVolumeMounts" "initContainers" "extraContainers" -}}
{{- with get $part $name -}}{{- $_ := set $all $name (concat (get $all $name | default list) . | uniq) -}}{{- end -}}
{{- end -}}
{{- range $name := list "podLabels" "podAnnotations" -}}
{{- with get $part $name -}}{{- $_ := set $all $name (merge (get $all $name | default dict) .) -}}{{- end -}}
{{- end -}}
{{- $all | toJson -}}
{{- end }}

{{/* How many workers there are, unless that is said: two where each part is a process, and one where one process is all of it. */}}
{{- define "ullage.workers" -}}
{{- if hasKey .Values.worker "replicas" }}{{ .Values.worker.replicas }}{{ else }}{{ ternary 2 1 (eq .Values.layout "large") }}{{ end -}}
{{- end }}

{{/* The parts that run in this mode: name, account, command, values, their rows of docs/security.md (kafka), and what is peculiar to them. */}}
{{- define "ullage.parts" -}}
{{- $v := .Values -}}
{{- $acts := eq $v.mode "apply" -}}
{{- $writes := ne $v.mode "watch" -}}
{{- $list := list
  (dict "name" "clock" "kafka" (list "clock") "account" "ullage-agents" "args" (list "source" "clock") "values" $v.clock)
  (dict "name" "worker" "kafka" (list "worker") "account" "ullage-agents" "args" (list "worker") "values" $v.worker "many" true)
  (dict "name" "source-kube" "kafka" (concat (list "kube") (ternary (list "mirror") list (dig "cluster" "control" false $v.settings)) (ternary (list "policies") list (dig "cluster" "policies" false $v.settings))) "account" "ullage-source-kube" "args" (list "source" "kube") "values" $v.sourceKube "api" true)
  (merge (dict "name" "source-usage" "kafka" (list "usage") "account" "ullage-source-usage" "args" (list "source" "usage") "values" $v.sourceUsage "api" true)
    (ternary (dict "port" 9365 "portName" "usage") dict (eq $v.usage.reads "remote-write"))) -}}
{{- if $writes -}}
{{- $list = append $list (dict "name" "consumer-status" "kafka" (list "status") "account" "ullage-consumer-status" "args" (list "consumer" "status") "values" $v.statusConsumer "api" true) -}}
{{- end -}}
{{- if $acts -}}
{{- $list = append $list (dict "name" "consumer-resizer" "kafka" (list "resizer") "account" "ullage-consumer-resizer" "args" (list "consumer" "resizer") "values" $v.resizer "api" true) -}}
{{- $list = append $list (dict "name" "consumer-evictor" "kafka" (list "evictor") "account" "ullage-consumer-evictor" "args" (list "consumer" "evictor") "values" $v.evictor "api" true) -}}
{{- $list = append $list (dict "name" "webhook" "kafka" (list "webhook") "account" "ullage-webhook" "args" (list "consumer" "webhook") "values" $v.webhookServer "api" true "many" true "port" 8000 "portName" "https") -}}
{{- end -}}
{{- if $v.nodeScaling.enabled -}}
{{- $list = append $list (dict "name" "source-asg" "kafka" (list "asg") "account" "ullage-source-asg" "args" (list "source" "asg") "values" $v.sourceAsg "api" true "aws" true) -}}
{{- if $acts -}}
{{- $list = append $list (dict "name" "consumer-asg" "kafka" (list "nodes") "account" "ullage-consumer-asg" "args" (list "consumer" "asg") "values" $v.asgConsumer "api" true "aws" true) -}}
{{- end -}}
{{- end -}}
{{- if and $v.nodeScaling.enabled $v.nodeScaling.expander.url -}}
{{- $mount := dict "name" "expander" "mountPath" "/etc/ullage/expander" "readOnly" true -}}
{{- $volume := dict "name" "expander" "secret" (dict "secretName" $v.nodeScaling.expander.certificateSecret) -}}
{{- $own := dict "extraVolumes" (list $volume) "extraVolumeMounts" (list $mount) -}}
{{- $list = append $list (dict "name" "consumer-expander" "kafka" (list "expander") "account" "ullage-agents" "args" (list "consumer" "expander") "values" (include "ullage.together" (list ($v.expanderConsumer | default dict) $own) | fromJson)) -}}
{{- end -}}
{{- if $v.replicaScaling.enabled -}}
{{- $list = append $list (dict "name" "source-load" "kafka" (list "load") "account" "ullage-agents" "args" (list "source" "load") "values" $v.sourceLoad) -}}
{{- end -}}
{{- if and $v.replicaScaling.enabled $acts -}}
{{- $list = append $list (dict "name" "consumer-autoscalers" "kafka" (list "autoscalers") "account" "ullage-consumer-autoscalers" "args" (list "consumer" "autoscalers") "values" $v.autoscalersConsumer "api" true) -}}
{{- $list = append $list (dict "name" "metrics-api" "kafka" (list "metrics") "account" "ullage-metrics-api" "args" (list "consumer" "metrics-api") "values" $v.metricsApi "api" true "many" true "port" 6443 "portName" "metrics-api") -}}
{{- end -}}
{{- $list | toJson -}}
{{- end }}

{{- define "ullage.webhookSettings" -}}
namespace: {{ .Release.Namespace | quote }}
failure_policy: {{ .Values.webhook.failurePolicy }}
{{- if include "ullage.webhookSecret" . }}
certificate: /etc/ullage/webhook/tls.crt
key: /etc/ullage/webhook/tls.key
ca: /etc/ullage/webhook/ca.crt
{{- end }}
{{- end }}

{{/* The Secret with the webhook's own certificate; empty where the webhook makes one itself. */}}
{{- define "ullage.webhookSecret" -}}
{{ .Values.webhook.certificateSecret | default (ternary "ullage-webhook-tls" "" .Values.webhook.certManager.enabled) }}
{{- end }}

{{/* The settings of all components, as ullage.yaml. */}}
{{- define "ullage.settings" -}}
{{- $_ := required "clusterName is needed, the name of this cluster in the log (--set clusterName=prod), and kafka.brokers, HOST:PORT of your Kafka, or kafka.kind=single to try without one" .Values.clusterName -}}
{{- $asked := include "ullage.security" . | fromJson -}}
{{- $security := dict "protocol" $asked.protocol -}}
{{- with $asked.mechanism }}{{ $_ := set $security "mechanism" . }}{{ end -}}
{{- with $asked.region }}{{ $_ := set $security "region" . }}{{ end -}}
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
  "webhook" (include "ullage.webhookSettings" . | fromYaml)
  "metrics_api" (dict "namespace" .Release.Namespace)
  "aws" $aws -}}
{{- with .Values.usage.prometheusUrl }}{{ $_ := set $tree "prometheus" (dict "url" .) }}{{ end -}}
{{- with .Values.nodeScaling.expander.url }}
{{- $_ := set $tree "expander" (dict "url" . "certificate" "/etc/ullage/expander/ca.crt") -}}
{{- $_ := set $tree "nodes" (dict "expanders" "grpc,least-waste") -}}
{{- end -}}
{{- mergeOverwrite $tree (deepCopy .Values.settings) | toYaml -}}
{{- end }}

{{/* The ports of Prometheus and of an expander that somebody asks, and those that are asked for by value. */}}
{{- define "ullage.otherPorts" -}}
{{- $ports := .Values.networkPolicy.egressPorts | default list -}}
{{- if or .Values.replicaScaling.enabled (eq .Values.usage.reads "prometheus") -}}
{{- $url := .Values.usage.prometheusUrl | default (dig "prometheus" "url" "http://prometheus.monitoring.svc" .Values.settings) -}}
{{- $host := (urlParse $url).host -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" | default (hasPrefix "https:" $url | ternary "443" "80") -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- with .Values.nodeScaling.expander.url -}}{{- $ports = append $ports (splitList ":" . | last | int) -}}{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end }}

{{- define "ullage.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* What the pods of components and of the setup share: account, rights, place. Called with root, account, the component's values, and whether
it asks the API server. What a component says of itself is added to what is said of all pods, and wins where both say it. */}}
{{- define "ullage.podSpec" -}}
{{- $root := index . 0 -}}
{{- $own := index . 2 -}}
{{- $all := $root.Values -}}
serviceAccountName: {{ index . 1 }}
automountServiceAccountToken: {{ index . 3 }}
enableServiceLinks: false
securityContext: {{- toYaml $all.podSecurityContext | nindent 2 }}
{{- with $all.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName | default $all.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $all.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with mergeOverwrite (deepCopy $all.nodeSelector) ($own.nodeSelector | default dict) }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat $all.tolerations ($own.tolerations | default list) }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity | default $all.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $all.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $all.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels and annotations of a pod, beside those of every object: called with root and the component's values. */}}
{{- define "ullage.podLabels" -}}
{{- $all := index . 0 -}}
{{- with mergeOverwrite (deepCopy $all.Values.podLabels) ((index . 1).podLabels | default dict) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "ullage.podAnnotations" -}}
{{- $all := index . 0 -}}
{{- with mergeOverwrite (deepCopy $all.Values.commonAnnotations) $all.Values.podAnnotations ((index . 1).podAnnotations | default dict) }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* Whether the Secrets are those that Strimzi makes: of our KafkaUsers, and of its cluster's authority. */}}
{{- define "ullage.strimziSecrets" -}}
{{- if and (eq .Values.kafka.kind "strimzi") (not .Values.kafka.security.secret) (not .Values.kafka.security.secrets) }}yes{{ end -}}
{{- end }}

{{/* Environment by which secrets of Kafka reach the settings: called with root and the name of the component. */}}
{{- define "ullage.environment" -}}
{{- $secret := include "ullage.kafkaSecret" . }}
{{- with index . 0 }}
{{- $security := include "ullage.security" . | fromJson }}
{{- $tls := has $security.protocol (list "SSL" "SASL_SSL") }}
{{- if include "ullage.strimziSecrets" . }}
{{- if ne $security.protocol "SSL" }}
- {name: ULLAGE_LOG__SECURITY__USERNAME, value: {{ $secret }}}
- {name: ULLAGE_LOG__SECURITY__PASSWORD, valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: password}}}
{{- end }}
{{- else if $secret }}
- {name: ULLAGE_LOG__SECURITY__USERNAME, valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: username, optional: true}}}
- {name: ULLAGE_LOG__SECURITY__PASSWORD, valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: password, optional: true}}}
{{- end }}
{{- if and $tls $secret }}
- {name: ULLAGE_LOG__SECURITY__FOLDER, value: /etc/ullage/kafka}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Mounts and volumes: called with root, the component's values, and its name. */}}
{{- define "ullage.mounts" -}}
{{- $own := index . 1 -}}
{{- $secret := include "ullage.kafkaSecret" (list (index . 0) (index . 2)) -}}
{{- with index . 0 -}}
- {name: settings, mountPath: /etc/ullage/settings, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if $secret }}
- {name: kafka, mountPath: /etc/ullage/kafka, readOnly: true}
{{- end }}
{{- with concat .Values.extraVolumeMounts ($own.extraVolumeMounts | default list) }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ullage.volumes" -}}
{{- $own := index . 1 -}}
{{- $secret := include "ullage.kafkaSecret" (list (index . 0) (index . 2)) -}}
{{- with index . 0 -}}
- {name: settings, configMap: {name: ullage-settings}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- if include "ullage.strimziSecrets" . }}
- name: kafka
  projected:
    sources:
      - secret: {name: {{ .Values.kafka.strimzi.cluster }}-cluster-ca-cert, items: [{key: ca.crt, path: ca.crt}]}
      {{- if eq .Values.kafka.strimzi.authentication "tls" }}
      - secret: {name: {{ $secret }}, items: [{key: user.crt, path: user.crt}, {key: user.key, path: user.key}]}
      {{- end }}
{{- else if $secret }}
- {name: kafka, secret: {secretName: {{ $secret | quote }}}}
{{- end }}
{{- with concat .Values.extraVolumes ($own.extraVolumes | default list) }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
